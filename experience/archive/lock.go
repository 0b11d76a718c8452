package archive

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/trinity-go/trinity/durable"
)

// lock keeps any other process from the archive until it is closed.
func (o *owned) lock() error {
	if o.as != nil {
		return nil
	}
	as, err := layoutOf(o.path)
	if err != nil {
		return err
	}
	dir, name := filepath.Split(o.path)
	if err := durable.MkdirAll(filepath.Clean(dir), 0o755); err != nil {
		return err
	}
	held, err := durable.TakeLock(dir, name, fmt.Sprintf("run %s in %s", o.run.Name, o.run.Dir))
	var other durable.Held
	if errors.As(err, &other) {
		return fmt.Errorf("%s is being written by %w: wait for it or end it, or set another path", o.path, other)
	}
	if err != nil {
		return err
	}
	o.as, o.unlock = as, held.Release
	return nil
}
