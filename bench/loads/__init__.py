"""The loads of the rows, one small class each; a load has its client in bench/clients under the same name."""
