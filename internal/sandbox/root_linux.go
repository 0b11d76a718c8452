package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// system are the files of this machine that programs need to run at all.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache"}

// devices are the devices that a program has. There is no /dev/zero: mapping it shared takes memory
// that no limit of a process counts.
var devices = []string{"/dev/null", "/dev/random", "/dev/urandom"}

// writable are the folders that a program may write, in namespaces.
var writable = []string{workFolder, "/tmp", "/dev/shm"}

// old is where the machine's root directory is while the new one is made.
const old = "/.old"

// changeRoot makes a root directory in memory that has the system's files, read-only, and empty
// folders, and leaves the machine's. The namespace of mounts must be this process's own.
func (j *job) changeRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %w", err)
	}
	const base = "/proc" // any folder does; this one is on every machine
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=755", j.Limits.Disk, j.Limits.Inodes+500)
	if err := unix.Mount("sandbox", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("cannot mount a tmpfs: %w", err)
	}
	if err := os.Mkdir(base+old, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(base, base+old); err != nil {
		return fmt.Errorf("cannot change the root directory: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := j.fill(); err != nil {
		return err
	}
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot leave the machine's root directory: %w", err)
	}
	if err := os.Remove(old); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return err
	}
	return readOnly("/", 0, 0)
}

// fill fills the new root directory.
func (j *job) fill() error {
	for _, path := range system {
		if err := bind(path, path, unix.MOUNT_ATTR_NODEV); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, path := range devices {
		if err := bind(path, path, unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for _, path := range slices.Concat(writable, j.Folders) {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil { // it stays writable when the root no longer is
			return fmt.Errorf("cannot mount %s: %w", path, err)
		}
	}
	for _, r := range j.Read { // it may be below a writable folder
		if slices.ContainsFunc(system, func(s string) bool { return r.Path == s || strings.HasPrefix(r.Path, s+"/") }) {
			continue
		}
		if err := bind(r.Real, r.Path, unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/etc/passwd", []byte("sandbox:x:0:0::"+workFolder+":/bin/sh\n"), 0o644); err != nil {
		return err
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	if err := os.Mkdir("/proc", 0o555); err != nil {
		return err
	}
	// Where a container hides parts of /proc, the kernel allows no other one: programs do without.
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if unix.Mount("proc", "/proc", "proc", flags, "subset=pid") != nil {
		_ = unix.Mount("proc", "/proc", "proc", flags, "")
	}
	return nil
}

// bind makes a file or folder of the machine readable at a path of the new root directory, with
// everything that is mounted below it. A symbolic link is made anew.
func bind(from, to string, attributes uint64) error {
	info, err := os.Lstat(old + from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(old + from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case info.IsDir():
		err = os.MkdirAll(to, 0o755)
	default:
		err = os.WriteFile(to, nil, 0o600)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(old+from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot bind %s: %w", from, err)
	}
	return readOnly(to, unix.AT_RECURSIVE, attributes)
}

// readOnly makes a mount read-only; with AT_RECURSIVE also all mounts below it.
func readOnly(path string, flags uint, attributes uint64) error {
	set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | attributes}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, flags, &set); err != nil {
		return fmt.Errorf("cannot make %s read-only: %w", path, err)
	}
	return nil
}
