package buffer

import (
	"context"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Buffers.Auto = []string{"sql"}
	registry.Buffers.Register("sql", "The queue, with its log in a database: SQLite in a file (path sqlite:///relative.db or "+
		"sqlite:////absolute.db), PostgreSQL (postgresql://user@host/name) or MySQL and MariaDB (mysql://user@host/name). "+
		"People read its table trinity_experiences.",
		func() trinity.BufferOpener { return &sqlOpener{} })
}

type sqlOpener struct{}

// DefaultPath implements config.StorePlace: a file of SQLite.
func (*sqlOpener) DefaultPath(dir, name string) string {
	return "sqlite:///" + filepath.ToSlash(filepath.Join(dir, name+".db"))
}

// CheckPath implements config.StorePlace.
func (*sqlOpener) CheckPath(path string) error {
	_, err := dburl.Parse(path)
	return err
}

// OpenBuffer implements trinity.BufferOpener.
func (*sqlOpener) OpenBuffer(ctx context.Context, s trinity.BufferSpec) (trinity.Buffer, error) {
	address, err := dburl.Parse(s.Path)
	if err != nil {
		return nil, err
	}
	log, err := openSQLLog(ctx, address, s.Name, database.Options{Retries: s.Retries, Interval: s.RetryInterval, Say: s.Say})
	if err != nil {
		return nil, err
	}
	q := NewQueue(s.Capacity, s.Memory, log)
	q.TakeTimeout, q.PutTimeout = s.TakeTimeout, s.PutTimeout
	return q, nil
}
