package tinker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Adapters beyond those that a sampler holds take the places of those that nobody uses, and wait while all are in use.
func TestShelf(t *testing.T) {
	loader := &counting{}
	s := &shelf{loader: loader, freed: make(chan struct{}), all: map[string]*adapter{}}
	add := func(written string) *adapter {
		c := &checkpoint{dir: t.TempDir()}
		c.Written = written
		if err := os.WriteFile(filepath.Join(c.dir, madeName), []byte(`{"written":"`+written+`"}`), 0o644); err != nil {
			t.Fatal(err)
		}
		return s.add(c)
	}
	var leaves []func()
	for i := range maxLoaded {
		_, leave, err := s.use(t.Context(), add(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	more, got := []*adapter{add("a"), add("b")}, make(chan string, 2)
	for _, a := range more {
		go func() {
			name, _, err := s.use(t.Context(), a)
			got <- fmt.Sprint(name[strings.LastIndex(name, "#")+1:], err)
		}()
	}
	select {
	case name := <-got:
		t.Fatalf("%s has a place", name)
	case <-time.After(20 * time.Millisecond):
	}
	leaves[3]()
	leaves[5]()
	names := []string{<-got, <-got}
	slices.Sort(names)
	loaded := loader.Adapters()
	third := strings.TrimSuffix(more[0].name, "a") + "3"
	if !slices.Equal(names, []string{"a<nil>", "b<nil>"}) || len(loaded) != maxLoaded || slices.Contains(loaded, third) {
		t.Errorf("%v, %v", names, loaded)
	}
	for i, leave := range leaves {
		if i != 3 && i != 5 {
			leave()
		}
	}
	if n := len(loader.Adapters()); n != maxIdle+2 {
		t.Errorf("a and b are in use, and %d are loaded", n)
	}
}

// counting is a sampler that knows what it holds.
type counting struct{ names []string }

func (c *counting) LoadAdapter(_ context.Context, name, _ string, _ int64) error {
	c.names = append(c.names, name)
	return nil
}

func (c *counting) DropAdapter(_ context.Context, name string) error {
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
	return nil
}
