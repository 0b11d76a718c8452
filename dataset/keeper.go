package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/trinity-go/trinity/durable"
)

// keeper keeps what it has cost to read a large file: where its rows are, or the rows themselves. What was kept of a file that has changed since, by
// its size or its time, is not used and is replaced.
type keeper struct {
	dir  string // where rows go that are too many for memory; "" is the system's
	path string // in dir; "" keeps nothing
	file string // that is read
	of   identity
	long int64 // bytes from which on a file is large
	lock *flock.Flock
}

// identity is a file as it was when it was read.
type identity struct {
	Path    string // absolute
	Size    int64
	ModTime int64 // nanoseconds since 1970
}

// settled is how long ago a file must have been written: within one tick of a file system's clock it could change again and look the same.
const settled = 2 * time.Second

func (o *Options) keeping(path string, info fs.FileInfo) (*keeper, error) {
	if o.Cache == "" || time.Since(info.ModTime()) < settled {
		return &keeper{dir: o.Cache}, nil
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(whole))
	name := filepath.Base(path) + "-" + hex.EncodeToString(sum[:8]) + ".rows"
	return &keeper{
		dir: o.Cache, path: filepath.Join(o.Cache, name), file: path, of: identity{whole, info.Size(), info.ModTime().UnixNano()},
		long: o.large(), lock: flock.New(filepath.Join(o.Cache, "lock")),
	}, nil
}

// load gives what was kept of the file; nil if that is nothing that can be used.
func (k *keeper) load(opts Options) shard {
	if k.path == "" {
		return nil
	}
	f, err := os.Open(k.path)
	if err != nil {
		return nil
	}
	x, err := readIndex(f)
	if err != nil || x.Of != k.of {
		_ = f.Close() // only read
		return nil
	}
	if x.Unit == "" {
		_ = f.Close()
		return &lines{path: k.file, marks: x.Marks, rows: x.Rows, size: k.of.Size}
	}
	opts.kept = k
	return &spool{path: k.file, unit: x.Unit, opts: opts, marks: x.Marks, sums: x.Sums, rows: x.Rows, size: x.Records, file: f}
}

// readAnew removes rows that were kept and are damaged, and reads the file again that they are of, unless it has changed.
func (k *keeper) readAnew(opts Options, why error) (*spool, error) {
	info, err := os.Stat(k.file)
	if err != nil {
		return nil, fmt.Errorf("%w, and what it was made of cannot be read: %w", why, err)
	}
	if info.Size() != k.of.Size || info.ModTime().UnixNano() != k.of.ModTime {
		return nil, fmt.Errorf("%w, and the dataset has changed since: start again", why)
	}
	if opts.Note != nil {
		opts.Note(fmt.Sprintf("%s: what was kept of it in %s is damaged (%v): it is read again", k.file, k.path, why))
	}
	if err := os.Remove(k.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s, err := openShard(k.file, opts)
	if err != nil {
		return nil, err
	}
	return s.(*spool), nil // a file of the same name is of the same format
}

// create makes the file that rows go to. Without a place to keep it, or while another process writes there, its name is taken away at once, so that
// no kill leaves it behind.
func (k *keeper) create() (*os.File, error) {
	if k.dir != "" {
		if err := os.MkdirAll(k.dir, 0o755); err != nil {
			return nil, err
		}
	}
	if k.path != "" {
		if mine, err := k.lock.TryLock(); err != nil {
			return nil, err
		} else if mine {
			return os.Create(k.part())
		}
	}
	f, err := os.CreateTemp(k.dir, "rows-*")
	if err == nil {
		_ = os.Remove(f.Name()) // where an open file keeps its name, the system's cleaning of temporary files takes it
	}
	return f, err
}

// part is the name of the file while it is written.
func (k *keeper) part() string { return k.path + ".part" }

// keep keeps a shard of a large file, and lets go of the place.
func (k *keeper) keep(s shard) (shard, error) {
	switch s := s.(type) {
	case *lines:
		return s, k.keepLines(s)
	case *spool:
		if k.lock != nil && k.lock.Locked() { // the rows went to create's file
			return s, errors.Join(s.scratchError(k.keepSpool(s)), k.release())
		}
	}
	return s, nil
}

// release lets another process write; what is not whole is removed.
func (k *keeper) release() error {
	if k.lock == nil || !k.lock.Locked() {
		return nil
	}
	err := os.Remove(k.part())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, k.lock.Unlock())
}

func (k *keeper) keepLines(l *lines) error {
	if k.path == "" || l.size <= k.long {
		return nil
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	if mine, err := k.lock.TryLock(); err != nil || !mine {
		return err
	}
	x := index{Of: k.of, Rows: l.rows, Marks: l.marks}
	return errors.Join(durable.Replace(k.path, x.write), k.release())
}

// keepSpool gives the rows their name once all of them are on the disk.
func (k *keeper) keepSpool(s *spool) error {
	x := index{Of: k.of, Unit: s.unit, Rows: s.rows, Records: s.size, Marks: s.marks, Sums: s.sums}
	if err := x.write(s.file); err != nil {
		return err
	}
	if err := errors.Join(durable.Sync(s.file), s.file.Close()); err != nil {
		return err
	}
	if err := os.Rename(k.part(), k.path); err != nil {
		return err
	}
	var err error
	s.file, err = os.Open(k.path)
	return err
}
