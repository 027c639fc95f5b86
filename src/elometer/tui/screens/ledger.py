from elometer.tui.screens.pane import Pane


class LedgerPane(Pane):
    NAME = "ledger"
