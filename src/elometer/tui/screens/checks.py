from elometer.tui.screens.pane import Pane


class ChecksPane(Pane):
    NAME = "checks"
