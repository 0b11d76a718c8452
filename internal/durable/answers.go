package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Answers stores expensive answers by key in a Log. A record is the length of the key (uvarint), the
// key and the answer. Many goroutines may use it at once.
type Answers struct {
	mu    sync.Mutex
	log   *Log
	index *LogIndex
	at    map[string]int64 // number of the record by key
}

// OpenAnswers opens the answers in a directory, and creates it if there is none.
func OpenAnswers(dir string) (*Answers, error) {
	log, err := OpenLog(dir)
	if err != nil {
		return nil, err
	}
	a := &Answers{log: log, index: IndexLog(dir), at: map[string]int64{}}
	r := ReadLog(dir, 0)
	defer r.Close()
	for {
		number := r.Number()
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		key, _, cutErr := splitAnswer(record)
		if err = errors.Join(err, cutErr); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: record %d: %w", dir, number, err), log.Close())
		}
		a.at[key] = number
	}
}

// splitAnswer returns the key and the answer in a record.
func splitAnswer(record []byte) (key string, answer []byte, err error) {
	n, width := binary.Uvarint(record)
	if width <= 0 || n > uint64(len(record)-width) {
		return "", nil, errors.New("it is not an answer")
	}
	return string(record[width : width+int(n)]), record[width+int(n):], nil
}

// Answer returns the answer that was put under a key; ok is false if there is none.
func (a *Answers) Answer(key string) (answer []byte, ok bool, err error) {
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
	_, answer, err = splitAnswer(record)
	return bytes.Clone(answer), err == nil, err
}

// Put keeps an answer, which is on disk when Put returns.
func (a *Answers) Put(key string, answer []byte) error {
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

// Close closes the log.
func (a *Answers) Close() error { return errors.Join(a.log.Close(), a.index.Close()) }
