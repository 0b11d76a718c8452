package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// table is a directory of Parquet files.
type table struct {
	dir   string
	parts []part // that look has found
	from  int64  // step from which on they give way
	step  int64  // written last
	more  int    // files of it so far
}

const partName = "step-%09d-%d.parquet"

func (t *table) look(step, _ int64) (_ found, err error) {
	t.from = step
	t.parts, err = partsOf(t.dir)
	steps := make(map[int64]bool, len(t.parts)) // of which there may be very many
	for _, p := range t.parts {
		steps[p.step] = true
	}
	return found{whole: func(step int64) bool { return steps[step] }}, err
}

func (t *table) open() error {
	parts := t.parts
	if rest := slices.ContainsFunc(parts, func(p part) bool { return p.step < t.from }); !rest && len(parts) > 0 {
		if _, err := moveAside(t.dir); err != nil {
			return err
		}
		parts = nil
	}
	for _, p := range parts {
		if p.step >= t.from {
			if err := os.Remove(filepath.Join(t.dir, p.name)); err != nil {
				return err
			}
		}
	}
	if err := durable.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	if err := durable.RemoveLeftovers(t.dir); err != nil {
		return err
	}
	return durable.SyncPath(t.dir)
}

// part is a file of a table.
type part struct {
	name string
	step int64
}

// partsOf lists the files of a directory that is a table, or is not there.
func partsOf(dir string) (parts []part, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: experiences as Parquet are a directory", err)
	}
	for _, e := range entries {
		p, more := part{name: e.Name()}, 0
		if p.name[0] == '.' { // half written, or the system's
			continue
		}
		if _, err := fmt.Sscanf(p.name, partName, &p.step, &more); err != nil || p.name != fmt.Sprintf(partName, p.step, more) {
			return nil, fmt.Errorf("%s: %s is no step of experiences: move it away, or set another path", dir, p.name)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (t *table) write(step int64, exps []*trinity.Experience) (bytes int64, err error) {
	rows, err := rowsOf(exps)
	if err != nil {
		return 0, err
	}
	if step != t.step {
		t.step, t.more = step, 0
	}
	err = durable.Replace(filepath.Join(t.dir, fmt.Sprintf(partName, step, t.more)), func(w io.Writer) error {
		p := parquet.NewGenericWriter[row](w, parquet.Compression(&parquet.Zstd), parquet.DataPageVersion(1))
		_, err := p.Write(rows)
		return errors.Join(err, p.Close())
	})
	t.more++
	return 0, err
}

func (t *table) close() error { return nil }
