package record

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// maxPluginLog bounds plugins.log, in bytes.
const maxPluginLog = 64 << 20

// boundedLog is a file that plug-ins and their programs write to. A full one is renamed to NAME.1, in
// place of the one before, so that a program that talks for days does not fill the disk.
type boundedLog struct {
	dir, name string
	most      int64 // bytes

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenPluginLog opens what plug-ins and their programs say, in the log files of a stage.
func OpenPluginLog(dir string) (io.WriteCloser, error) {
	return openBoundedLog(dir, "plugins.log", maxPluginLog)
}

func openBoundedLog(dir, name string, most int64) (*boundedLog, error) {
	l := &boundedLog{dir: dir, name: name, most: most}
	return l, l.open()
}

func (l *boundedLog) open() (err error) {
	if l.file, err = OpenLines(l.dir, l.name); err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return errors.Join(err, l.file.Close())
	}
	l.size = info.Size()
	return nil
}

// Write implements io.Writer.
func (l *boundedLog) Write(p []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.most {
		path := filepath.Join(l.dir, l.name)
		if err := errors.Join(l.file.Close(), os.Rename(path, path+".1"), l.open()); err != nil {
			return 0, err
		}
	}
	n, err = l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// Close implements io.Closer.
func (l *boundedLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
