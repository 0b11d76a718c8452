package feed

import (
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/database/dburl"
)

// withImages returns a formatter that keeps the images of an earlier run's experiences in a run's own
// store. An archive in files has them beside its files. A database has none, so they must be there.
func withImages(format formatter, own blobs.Store, path string) formatter {
	if dburl.IsURL(path) {
		return format
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		path = filepath.Dir(path)
	}
	from := blobs.In(path)
	return func(row map[string]any) ([]*trinity.Experience, error) {
		exps, err := format(row)
		if err != nil {
			return nil, err
		}
		return exps, own.Copy(from, exps...)
	}
}
