package durable

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/failpoint"
)

var (
	failFileCreate  = failpoint.New("durable.file.create")
	failFileWrite   = failpoint.New("durable.file.write")
	failFileSync    = failpoint.New("durable.file.sync")
	failFileRename  = failpoint.New("durable.file.rename")
	failFileRenamed = failpoint.New("durable.file.renamed")
)

// Replace replaces the content of path by what write writes. It fills a temporary file beside path,
// flushes it to the disk and renames it. On an error path stays as it was.
func Replace(path string, write func(w io.Writer) error) error { return replace(path, 0o666, write) }

func replace(path string, mode os.FileMode, write func(w io.Writer) error) error {
	temp := filepath.Join(filepath.Dir(path), TempPrefix+filepath.Base(path))
	if err := failFileCreate.Hit(path); err != nil {
		return err
	}
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if at := new(fs.PathError); errors.As(err, &at) {
		at.Path = path // who asked for it does not know the temporary file
	}
	if err != nil {
		return err
	}
	err = fill(f, write)
	if err = errors.Join(err, f.Close()); err == nil {
		err = rename(temp, path, failFileRename)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := failFileRenamed.Hit(path); err != nil {
		return err
	}
	return SyncPath(filepath.Dir(path))
}

func rename(from, to string, fail *failpoint.Point) error {
	if err := fail.Hit(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func fill(f *os.File, write func(w io.Writer) error) error {
	w := bufio.NewWriterSize(failing{f}, 64<<10)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := failFileSync.Hit(f.Name()); err != nil {
		return err
	}
	return Sync(f)
}

// failing is a file whose writes are a failpoint.
type failing struct{ file *os.File }

func (f failing) Write(data []byte) (int, error) {
	return failFileWrite.Write(f.file, f.file.Name(), data)
}

// WriteFile replaces the content of path by data. Readers see the old or the new content.
func WriteFile(path string, data []byte) error { return Replace(path, content(data)) }

// WriteSecret is WriteFile for a file that only its owner may read.
func WriteSecret(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), TempPrefix+filepath.Base(path))
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // others may be able to read a leftover
		return err
	}
	return replace(path, 0o600, content(data))
}

func content(data []byte) func(w io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	}
}
