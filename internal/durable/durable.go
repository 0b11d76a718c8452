// Package durable writes files and directories so that a kill at any moment leaves the old or the
// new content, whole.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/failpoint"
)

// TempPrefix starts the names of files and directories that are being written. If a killed process
// left one, it may be removed.
const TempPrefix = ".writing_"

// replacedPrefix starts the name of a directory while another one replaces it.
const replacedPrefix = ".replaced_"

var (
	failDirCreate  = failpoint.New("durable.dir.create")
	failDirSync    = failpoint.New("durable.dir.sync")
	failDirReplace = failpoint.New("durable.dir.replace")
	failDirRename  = failpoint.New("durable.dir.rename")
	failDirRenamed = failpoint.New("durable.dir.renamed")
	failDirRemove  = failpoint.New("durable.dir.remove")
)

// WriteDir calls write to fill a directory under a temporary name, flushes that directory to the
// disk and renames it to dir, which it replaces. On an error dir stays as it was. If the process is
// killed between the two renames, RemoveLeftovers puts the old directory back.
func WriteDir(dir string, write func(temp string) error) error {
	temp := beside(TempPrefix, dir)
	if err := fillDir(temp, write); err != nil {
		return errors.Join(err, os.RemoveAll(temp)) // it only takes up space
	}
	replaced := beside(replacedPrefix, dir)
	if err := restore(replaced, dir); err != nil { // left by a killed process
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		if err := rename(dir, replaced, failDirReplace); err != nil {
			return err
		}
	}
	if err := rename(temp, dir, failDirRename); err != nil {
		return errors.Join(err, restore(replaced, dir), os.RemoveAll(temp))
	}
	if err := failDirRenamed.Hit(dir); err != nil {
		return err
	}
	if err := SyncPath(filepath.Dir(dir)); err != nil {
		return err
	}
	return os.RemoveAll(replaced)
}

func beside(prefix, path string) string {
	return filepath.Join(filepath.Dir(path), prefix+filepath.Base(path))
}

func fillDir(temp string, write func(temp string) error) error {
	if err := failDirCreate.Hit(temp); err != nil {
		return err
	}
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := MkdirAll(filepath.Dir(temp), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	if err := write(temp); err != nil {
		return err
	}
	if err := failDirSync.Hit(temp); err != nil {
		return err
	}
	return syncTree(temp)
}

// restore renames a replaced directory back to dir, unless dir exists; then it removes it.
func restore(replaced, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return os.RemoveAll(replaced)
	}
	if err := os.Rename(replaced, dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveDir removes a directory as a whole. A killed process leaves all of it, or a leftover.
func RemoveDir(dir string) error {
	temp := beside(TempPrefix, dir)
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.Rename(dir, temp); err != nil {
		return err
	}
	if err := failDirRemove.Hit(dir); err != nil {
		return err
	}
	return os.RemoveAll(temp)
}

// RemoveLeftovers removes half-written files and directories that killed processes left in parent,
// and puts back directories that they had not replaced yet. No other process may write in parent
// meanwhile.
func RemoveLeftovers(parent string) error {
	if err := RemoveLeftoverDirs(parent); err != nil {
		return err
	}
	return removeAll(matches(parent, TempPrefix))
}

// RemoveLeftoverDirs is RemoveLeftovers for directories only. Use it where other processes write
// files. A leftover file is overwritten when its file is written again.
func RemoveLeftoverDirs(parent string) error {
	for _, replaced := range matches(parent, replacedPrefix) {
		name := filepath.Base(replaced)[len(replacedPrefix):]
		if err := restore(replaced, filepath.Join(parent, name)); err != nil {
			return err
		}
	}
	return removeAll(slices.DeleteFunc(matches(parent, TempPrefix), func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.IsDir()
	}))
}

func removeAll(paths []string) error {
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// matches returns the paths in parent whose names begin with prefix, and none if parent cannot be
// read.
func matches(parent, prefix string) (paths []string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if name := e.Name(); len(name) > len(prefix) && name[:len(prefix)] == prefix {
			paths = append(paths, filepath.Join(parent, name))
		}
	}
	return paths
}

// syncTree flushes every file and directory below dir.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return SyncPath(path)
	})
}
