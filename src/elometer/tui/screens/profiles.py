from elometer.tui.screens.pane import Pane


class ProfilesPane(Pane):
    NAME = "profiles"
