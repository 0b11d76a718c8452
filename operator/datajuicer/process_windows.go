package datajuicer

import "os/exec"

func ownGroup(*exec.Cmd) {}

// interrupt kills the process, because Windows has no way to ask it to end.
func interrupt(cmd *exec.Cmd) { kill(cmd) }
func kill(cmd *exec.Cmd)      { _ = cmd.Process.Kill() }
