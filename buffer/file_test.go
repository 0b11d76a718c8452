package buffer

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestFileBetweenProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "experiences.jsonl")
	explorer, trainer := NewFile(path, time.Minute, time.Millisecond), NewFile(path, time.Minute, time.Millisecond)
	if _, err := explorer.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := explorer.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(1, 3)}, Cursor: []byte(`1`)}); err != nil {
		t.Fatal(err)
	}
	if exps, err := trainer.Take(t.Context(), 2, 0); err != nil || len(exps) != 2 {
		t.Fatalf("got %v, %v", exps, err)
	}
	state, err := trainer.State()
	if err != nil {
		t.Fatal(err)
	}

	// A killed explorer leaves half a line; the next one goes on from what was committed.
	if _, err := explorer.file.WriteString(`{"id":`); err != nil {
		t.Fatal(err)
	}
	explorer = NewFile(path, time.Minute, time.Millisecond)
	cursor, err := explorer.Resume(t.Context())
	if err != nil || string(cursor) != "1" {
		t.Fatalf("resumed at %s, %v", cursor, err)
	}
	if err := explorer.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(2, 1)}, Cursor: []byte(`2`)}); err != nil {
		t.Fatal(err)
	}
	if err := explorer.Close(); err != nil {
		t.Fatal(err)
	}

	trainer = NewFile(path, time.Minute, time.Millisecond)
	if err := trainer.Restore(state); err != nil {
		t.Fatal(err)
	}
	exps, err := trainer.Take(t.Context(), 5, 0)
	if err != nil || len(exps) != 2 || exps[0].ID.Run != 2 || exps[1].ID.Step != 2 {
		t.Fatalf("got %v, %v; want the last of step 1 and that of step 2", exps, err)
	}
	if _, err := trainer.Take(t.Context(), 1, 0); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want io.EOF", err)
	}
}

// pair is the two sides of a file: an explorer's and a trainer's.
func pair(t *testing.T, timeout time.Duration) (explorer, trainer *File) {
	t.Helper()
	return sides(t, filepath.Join(t.TempDir(), "experiences.jsonl"), timeout)
}

func sides(t *testing.T, path string, timeout time.Duration) (explorer, trainer *File) {
	t.Helper()
	explorer = NewFile(path, timeout, time.Millisecond)
	if _, err := explorer.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	return explorer, NewFile(path, timeout, time.Millisecond)
}

func TestFileIsABuffer(t *testing.T) {
	trinitytest.Buffer(t, trinitytest.BufferOptions{}, func(t *testing.T, dir string) trinitytest.Store {
		explorer, trainer := sides(t, filepath.Join(dir, "experiences.jsonl"), time.Minute)
		return trinitytest.Store{Explorer: explorer, Trainer: trainer}
	})
}

func TestFileTakeHasADeadline(t *testing.T) {
	_, trainer := pair(t, 20*time.Millisecond)
	if _, err := trainer.Take(t.Context(), 5, 0); err == nil || !strings.Contains(err.Error(), "max_read_timeout") {
		t.Errorf("got %v", err)
	}
}

func TestAShortFileIsAnError(t *testing.T) {
	explorer, trainer := pair(t, time.Minute)
	if err := explorer.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(1, 3)}}); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(explorer.path, 10); err != nil {
		t.Fatal(err)
	}
	_, asTrainer := trainer.Take(t.Context(), 3, 0)
	_, asExplorer := NewFile(explorer.path, time.Minute, time.Millisecond).Resume(t.Context())
	for _, err := range []error{asTrainer, asExplorer} {
		if err == nil || !strings.Contains(err.Error(), explorer.path) || !strings.Contains(err.Error(), "has 10 bytes") {
			t.Errorf("got %v", err)
		}
	}
}
