from elometer.tui.screens.pane import Pane


class FitPane(Pane):
    NAME = "fit"
