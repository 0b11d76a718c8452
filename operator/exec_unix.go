//go:build unix

package operator

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// asGroup gives the program its own process group, which is killed as a whole when the context
// ends.
func asGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killGroup kills the processes that an exited program left running. The system does not reuse the
// group's number while it has members.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// drain reads the bytes that are in a pipe now, without waiting for more.
func drain(to io.Writer, f *os.File) error {
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	pipe, err := f.SyscallConn()
	if err != nil {
		return err
	}
	data := make([]byte, 1<<20) // no pipe holds more
	n := 0
	var failed error
	err = pipe.Read(func(fd uintptr) bool {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			n, failed = syscall.Read(int(fd), data)
		}
		return true
	})
	switch {
	case failed == syscall.EAGAIN: // it is empty
		return err
	case err != nil || failed != nil:
		return errors.Join(err, failed)
	}
	_, err = to.Write(data[:n])
	return err
}
