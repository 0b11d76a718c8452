package operator

import "os/exec"

// killWhole leaves it at the program itself, which the context kills.
func killWhole(*exec.Cmd) {}
