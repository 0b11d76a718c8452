package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/trinity-go/trinity/internal/dataset"
)

// streaming opens a file of many rows, that no process has read before, and reads them in order.
type streaming struct{ path string }

func newStreaming(a *assignment) (task, error) {
	s := &streaming{a.Rows}
	if _, err := os.Stat(s.path); err == nil {
		return s, nil // the other side reads the same
	}
	return s, writeRows(s.path, manyRows)
}

// manyRows is how many rows the file has.
const manyRows = 10_000_000

func writeRows(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(w, "{\"question\": \"What is %d plus %d?\", \"answer\": \"%d\"}\n", i, i+1, 2*i+1)
	}
	return errors.Join(w.Flush(), f.Close())
}

func (s *streaming) run(int) (sample, error) {
	start := time.Now()
	d, err := dataset.Open(context.Background(), s.path, dataset.Options{})
	if err != nil {
		return sample{}, err
	}
	for i := range d.Len() {
		if _, err := d.Row(i); err != nil {
			return sample{}, err
		}
	}
	return sample{Value: float64(d.Len()) / time.Since(start).Seconds()}, nil
}
