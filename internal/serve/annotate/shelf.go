package annotate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/durable"
)

// Shelf opens books for a server that has several. All data of a book stay in memory, so it refuses data
// that are too large.
type Shelf struct {
	Most int64 // bytes of the data of a book
}

// Page returns a handler of the page that needs no book. It answers no request of its API.
func (Shelf) Page() http.Handler { return (&Server{}).Handler() }

// Asks returns what the book in a directory asks about: a path, or a URL without its password. ok is false
// if there is no book, or one that does not say so.
func (Shelf) Asks(dir string) (data string, ok bool) {
	q, err := ReadQuestions(dir)
	return q.Data, err == nil
}

// Begin makes the book of a directory. prompt and answers are the keys of rows that are no experiences.
func (s Shelf) Begin(ctx context.Context, dir, data string, rows dataset.Options, prompt string, answers []string) error {
	q := Questions{Data: data, Terms: Terms{Overlap: 1, Lease: 10 * time.Minute},
		Options: Options{Split: rows.Split, Subset: rows.Subset, PromptKey: prompt, AnswerKeys: answers}}
	book, err := s.book(ctx, q, dir)
	if err != nil {
		return err
	}
	return book.Close()
}

// Open opens the book of a directory. Requests to the handler carry the token. end writes the training
// data and closes the book.
func (s Shelf) Open(ctx context.Context, dir, token string) (handler http.Handler, end func() error, err error) {
	q, err := ReadQuestions(dir)
	if err != nil {
		return nil, nil, err
	}
	book, err := s.book(ctx, q, dir)
	if err != nil {
		return nil, nil, err
	}
	end = func() error {
		_, err := book.Write(dir)
		return errors.Join(err, book.Close())
	}
	return (&Server{Book: book, Token: token}).Handler(), end, nil
}

func (s Shelf) book(ctx context.Context, q Questions, dir string) (*Book, error) {
	if strings.Contains(q.Data, ":***@") {
		return nil, errors.New("the address of the database lacks its password: continue with `trinity annotate`")
	}
	size, err := sizeOf(q.Data)
	if err != nil {
		return nil, err
	}
	if size > s.Most {
		return nil, fmt.Errorf("%s has %d MiB, more than %d: use `trinity annotate --data %s`", q.Data, size>>20, s.Most>>20, q.Data)
	}
	book, _, err := q.Open(ctx, dir)
	return book, err
}

// sizeOf returns the bytes of the files at a path; 0 for a database.
func sizeOf(path string) (int64, error) {
	if dburl.IsURL(path) {
		return 0, nil
	}
	return durable.Size(path)
}
