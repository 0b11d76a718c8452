package service

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/durable"
)

// Two services would write the same journals.
func TestOneServiceUsesADirectory(t *testing.T) {
	dir := t.TempDir()
	lock, err := durable.TakeLock(dir, "service", "trinity service")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	err = Run(t.Context(), Options{Dir: dir})
	if err == nil || !strings.HasPrefix(err.Error(), "the directory "+dir+" is that of trinity service (process ") {
		t.Errorf("%v", err)
	}
}
