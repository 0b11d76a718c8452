package rundir

import (
	"errors"
	"os"

	"github.com/trinity-go/trinity/internal/durable"
)

// Position is how far a reader has come in a file of metrics.
type Position struct {
	At   Mark
	info os.FileInfo // of the file
}

// Open opens the file of metrics in a directory. isSame reports whether it still has what the reader has read.
func (p *Position) Open(dir string) (f *os.File, info os.FileInfo, isSame bool, err error) {
	f, size, err := durable.OpenWithin(dir, MetricsFile)
	if err != nil {
		return nil, nil, false, err
	}
	if info, err = f.Stat(); err != nil {
		return nil, nil, false, errors.Join(err, f.Close())
	}
	isSame = p.info != nil && os.SameFile(p.info, info) && size >= p.At.Offset && p.At.Holds(f)
	p.info = info
	return f, info, isSame, nil
}
