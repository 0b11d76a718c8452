package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// folderPrefix begins the names of the folders that programs have without namespaces.
const folderPrefix = "trinity-sandbox-"

// folder is the place of one program without namespaces. This process locks it, and the kernel drops
// the lock of a process that dies.
type folder struct {
	path string
	lock *os.File // nil where folders cannot be locked, such as on NFS; then nobody sweeps either
}

// work returns the program's working directory, in which the program may do anything.
func (f *folder) work() string { return filepath.Join(f.path, "work") }

// sweepOnce removes, once in a process, what killed runs have left.
var sweepOnce = sync.OnceFunc(func() { sweepFolders(os.TempDir()) })

// newFolder makes the folder of a program.
func newFolder() (*folder, error) {
	sweepOnce()
	for {
		path, err := os.MkdirTemp("", folderPrefix)
		if err != nil {
			return nil, err
		}
		f := &folder{path: path}
		if f.lock, err = lockFolder(path); errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue // a run that sweeps took it before this one could lock it
		}
		if err := os.Mkdir(f.work(), 0o700); err != nil {
			f.remove()
			return nil, err
		}
		return f, nil
	}
}

// lockFolder locks a folder. The error is EWOULDBLOCK if its owner lives, and fs.ErrNotExist if it
// was removed.
func lockFolder(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	lock := os.NewFile(uintptr(fd), path)
	var held, now os.FileInfo
	if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		held, err = lock.Stat()
	}
	if err == nil {
		now, err = os.Lstat(path)
	}
	if err == nil && !os.SameFile(held, now) {
		err = fs.ErrNotExist
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// giveTo lets another user reach the program's working directory, which becomes its own.
func (f *folder) giveTo(user int) error {
	return errors.Join(os.Chmod(f.path, 0o711), os.Chown(f.work(), user, user))
}

// remove removes the folder, and then drops the lock. It leaves what it may not remove.
func (f *folder) remove() {
	if os.Geteuid() != 0 { // the program may have forbidden folders
		_ = filepath.WalkDir(f.path, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	}
	_ = os.RemoveAll(f.path)
	if f.lock != nil {
		f.lock.Close()
	}
}

// sweepFolders removes the folders of this user's programs whose owners are dead.
func sweepFolders(dir string) {
	all, _ := filepath.Glob(filepath.Join(dir, folderPrefix+"*"))
	for _, path := range all {
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Geteuid() {
			continue
		}
		lock, err := lockFolder(path)
		if err != nil {
			continue
		}
		f := &folder{path, lock}
		if f.isOurs() {
			f.remove()
		} else {
			lock.Close()
		}
	}
}

// isOurs reports whether the folder has what newFolder makes. An earlier version locked no folder, so
// its owner may live.
func (f *folder) isOurs() bool {
	inside, err := os.ReadDir(f.path)
	return err == nil && (len(inside) == 0 || len(inside) == 1 && inside[0].Name() == filepath.Base(f.work()))
}
