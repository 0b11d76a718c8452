package archive

import (
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/database/dburl"
)

// formatter makes experiences of a row.
type formatter = func(map[string]any) ([]*trinity.Experience, error)

// KeepImages returns a formatter that keeps the images of an archive's experiences for the run in a
// directory. An archive in files has them beside its files. A database has none, so the run must have
// them already.
func KeepImages(format formatter, path, dir string) formatter {
	if dburl.IsURL(path) {
		return format
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		path = filepath.Dir(path)
	}
	from, own := blobs.In(path), blobs.In(dir)
	return func(row map[string]any) ([]*trinity.Experience, error) {
		exps, err := format(row)
		if err != nil {
			return nil, err
		}
		return exps, own.Copy(from, exps...)
	}
}
