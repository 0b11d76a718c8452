package sweep

import (
	"os"
	"os/exec"
	"syscall"
)

// apart keeps the terminal's signals from the child, which stop sends. A killed sweep takes its
// children with it, so that the next one finds no run that is still at work.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func stop(cmd *exec.Cmd) { _ = cmd.Process.Signal(os.Interrupt) } // it may have ended
