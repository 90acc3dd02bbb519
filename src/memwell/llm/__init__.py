"""Language models, used only where the settings name one."""
