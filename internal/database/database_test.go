package database

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/database/dburl"
)

// The error for a file that cannot be written is the system's, which says why.
func TestUnwritableFile(t *testing.T) {
	dir := t.TempDir()
	a, err := dburl.Parse("sqlite:///" + filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), a, Options{})
	if err == nil {
		_ = db.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "is a directory") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a directory in place of the file: %v", err)
	}
}

// hooked is a context that never ends. It counts the functions that wait for its end.
type hooked struct {
	context.Context
	ends  chan struct{}
	hooks int
}

func (h *hooked) Done() <-chan struct{} { return h.ends }

// AfterFunc is called by package context.
func (h *hooked) AfterFunc(func()) (stop func() bool) {
	h.hooks++
	return func() bool { h.hooks--; return true }
}

// After a transaction, nothing waits for the end of the context.
func TestTransactionsLeaveNothingBehind(t *testing.T) {
	db := openTest(t, "sqlite:///"+filepath.ToSlash(filepath.Join(t.TempDir(), "a.db")), Options{})
	ctx := &hooked{Context: t.Context(), ends: make(chan struct{})}
	for what, fn := range map[string]func(context.Context, Tx) (bool, error){
		"committed":     func(context.Context, Tx) (bool, error) { return true, nil },
		"not committed": func(context.Context, Tx) (bool, error) { return false, nil },
		"failed":        func(context.Context, Tx) (bool, error) { return true, errors.New("no") },
	} {
		_ = db.Update(ctx, fn)
		if ctx.hooks != 0 {
			t.Errorf("%s: %d wait", what, ctx.hooks)
			ctx.hooks = 0
		}
	}
}
