package taskset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/trinity-go/trinity/internal/durable"
)

// answers is a rows.AnswerStore on the disk. A record of its log is the length of the key
// (uvarint), the key and the answer.
type answers struct {
	mu    sync.Mutex
	log   *durable.Log
	index *durable.LogIndex
	at    map[string]int64 // number of the record by key
}

func openAnswers(dir string) (*answers, error) {
	log, err := durable.OpenLog(dir)
	if err != nil {
		return nil, err
	}
	a := &answers{log: log, index: durable.IndexLog(dir), at: map[string]int64{}}
	r := durable.ReadLog(dir, 0)
	defer r.Close()
	for {
		number := r.Number()
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		key, _, cutErr := split(record)
		if err = errors.Join(err, cutErr); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: record %d: %w", dir, number, err), log.Close())
		}
		a.at[key] = number
	}
}

// split returns the key and the answer in a record.
func split(record []byte) (key string, answer []byte, err error) {
	n, width := binary.Uvarint(record)
	if width <= 0 || n > uint64(len(record)-width) {
		return "", nil, errors.New("it is not an answer")
	}
	return string(record[width : width+int(n)]), record[width+int(n):], nil
}

// Answer implements rows.AnswerStore.
func (a *answers) Answer(key string) ([]byte, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	number, ok := a.at[key]
	if !ok {
		return nil, false, nil
	}
	record, err := a.index.Read(number)
	if err != nil {
		return nil, false, err
	}
	_, answer, err := split(record)
	return bytes.Clone(answer), err == nil, err
}

// Put implements rows.AnswerStore.
func (a *answers) Put(key string, answer []byte) error {
	record := binary.AppendUvarint(nil, uint64(len(key)))
	number, err := a.log.Append(slices.Concat(record, []byte(key), answer))
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[key] = number
	return nil
}

func (a *answers) close() error { return errors.Join(a.log.Close(), a.index.Close()) }
