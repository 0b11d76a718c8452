package run_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// small mounts a file system of so many bytes, in memory, at the run's directory.
func (p project) small(t *testing.T, size string) {
	t.Helper()
	dir := filepath.Join(p.dir, "checkpoints")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("file systems cannot be mounted here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

func (p project) remount(t *testing.T, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount("none", filepath.Join(p.dir, "checkpoints"), "tmpfs", syscall.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}

// The disk fills up before the first checkpoint, then after it, and is then read-only.
func TestAFullDiskEndsTheRun(t *testing.T) {
	t.Parallel()
	whole := newProject(t, tiny, rl)
	p := whole.copyOf(t)
	p.small(t, "300k")
	// The disk is full within the checkpoint of step 2; the log of the buffer may be the first to notice.
	p.start(t, nil).fails(t, p.job(), "no space left on device", "make room and start the same command again")
	p.remount(t, 0, "size=1300k")
	p.start(t, nil).fails(t, p.job(), "no space left on device", "make room and start the same command again")
	if !exists(filepath.Join(p.job(), "global_step_2", "run.json")) {
		t.Error("the checkpoint of step 2 is missing")
	}
	p.remount(t, syscall.MS_RDONLY, "size=64m")
	p.start(t, nil).fails(t, p.job(), "read-only file system", "let this user write there")
	p.remount(t, 0, "size=64m")
	p.start(t, nil).finish(t)
	whole.start(t, nil).finish(t)
	results(t, p.dir).sameAs(t, results(t, whole.dir))
}
