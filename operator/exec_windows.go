package operator

import "os/exec"

// asGroup leaves it at the program itself, which the context kills.
func asGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
