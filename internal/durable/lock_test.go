package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	l, err := TakeLock(dir, "part", "run a")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := TakeLock(dir, "other", ""); err != nil {
		t.Errorf("another name: %v", err)
	} else {
		other.Release()
	}
	var held Held
	if _, err := TakeLock(dir, "part", "run b"); !errors.As(err, &held) || held.PID != os.Getpid() ||
		!strings.HasPrefix(held.Error(), "run a (process ") {
		t.Errorf("a second holder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".holder_part.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(dir, "part", "run b"); err == nil || err.Error() != "another process" {
		t.Errorf("a holder that has just begun: %v", err)
	}
	l.Release()
	if l, err = TakeLock(dir, "part", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(dir, "part", ""); !errors.As(err, &held) || !strings.HasPrefix(held.Error(), "process ") {
		t.Errorf("a holder that says nothing of itself: %v", err)
	}
	l.Release()
}

func TestAcquireWaitsUntilReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	if _, err := Acquire(ctx, path); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) {
		t.Errorf("a lock that is held: %v", err)
	}
	time.AfterFunc(3*lockPoll, release)
	if release, err = Acquire(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	release()
}
