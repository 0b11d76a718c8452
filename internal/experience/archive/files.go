package archive

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
)

// files is an archive with one file per step.
type files struct {
	dir, form string
	run       string // directory of the run that has the images
}

const stepName = "step-%09d"

func openFiles(dir string) (*files, error) {
	form := experience.Form(dir)
	if form == "" {
		return nil, fmt.Errorf("%s: not a form of experiences: want a name that ends in one of %s", dir, strings.Join(experience.Forms, " "))
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file, but an archive is a directory with one file per step: move the file away, or set another path",
			dir)
	}
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &files{dir: dir, form: form}, durable.RemoveLeftovers(dir)
}

func (f *files) path(step int64) string {
	return filepath.Join(f.dir, fmt.Sprintf(stepName, step)+f.form)
}

func (f *files) write(_ context.Context, step int64, exps []*trinity.Experience) error {
	if len(exps) == 0 {
		return f.remove(step)
	}
	if err := blobs.In(f.dir).Copy(blobs.In(f.run), exps...); err != nil { // before what names them
		return err
	}
	return durable.Replace(f.path(step), func(w io.Writer) error { return encode(w, f.form, exps) })
}

func (f *files) remove(step int64) error {
	err := os.Remove(f.path(step))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.SyncPath(f.dir)
}

// removeFrom removes all steps from first on.
func (f *files) removeFrom(first int64) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var step int64
		if _, err := fmt.Sscanf(e.Name(), stepName, &step); err != nil || step < first {
			continue
		}
		if err := f.remove(step); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) close() error { return nil }

// encode writes experiences in one of experience.Forms.
func encode(w io.Writer, form string, exps []*trinity.Experience) error {
	switch form {
	case ".parquet":
		return encodeTable(w, exps)
	case ".jsonl.gz":
		z := gzip.NewWriter(w)
		return errors.Join(encodeLines(z, exps), z.Close())
	case ".jsonl.zst":
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		return errors.Join(encodeLines(z, exps), z.Close())
	default:
		return encodeLines(w, exps)
	}
}

func encodeLines(w io.Writer, exps []*trinity.Experience) error {
	var line []byte
	for _, e := range exps {
		var err error
		if line, err = experience.AppendJSON(line[:0], e); err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func encodeTable(w io.Writer, exps []*trinity.Experience) error {
	rows, err := experience.Rows(exps)
	if err != nil {
		return err
	}
	table := parquet.NewGenericWriter[experience.Row](w, parquet.Compression(&parquet.Zstd), parquet.DataPageVersion(1))
	_, err = table.Write(rows)
	return errors.Join(err, table.Close())
}
