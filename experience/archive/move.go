package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/durable"
)

// StateFile is behind the archive's name: the cursor of an explorer that writes for nobody in particular.
const StateFile = ".state"

const ownerFile = ".owner" // likewise: its record

// beside are the files that go where the archive goes; the record is the last.
var beside = []string{StateFile, ownerFile}

// move renames an archive with what is beside it. A kill in between leaves the record at both names, and the archive at one.
func move(from, to string) error {
	for _, ending := range beside {
		data, err := os.ReadFile(from + ending)
		if errors.Is(err, fs.ErrNotExist) {
			err = remove(to + ending)
		} else if err == nil {
			err = durable.WriteFile(to+ending, data)
		}
		if err != nil {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := durable.SyncPath(filepath.Dir(to)); err != nil { // or else a power cut leaves it at its old name, without a record
		return err
	}
	return removeBeside(from)
}

// moveAside renames what is at path to path with the first number behind it that nothing has. What is beside it stays.
func moveAside(path string) (to string, err error) {
	if to, err = freeName(path); err != nil {
		return "", err
	}
	if err := removeBeside(to); err != nil { // what was beside one that has been moved back
		return "", err
	}
	if err := os.Rename(path, to); err != nil {
		return "", err
	}
	return to, durable.SyncPath(filepath.Dir(path))
}

func freeName(path string) (string, error) {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.%d", path, i)
		if there, err := exists(name); err != nil || !there {
			return name, err
		}
	}
}

// removeBeside removes what was beside an archive.
func removeBeside(path string) error {
	for _, ending := range beside {
		if err := remove(path + ending); err != nil {
			return err
		}
	}
	return nil
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
