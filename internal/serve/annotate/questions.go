package annotate

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/safetext"
)

// QuestionsFile is in the directory of a book. It has the [Questions] that the decisions answer.
const QuestionsFile = "questions.json"

// maxQuestions bounds the file, in bytes.
const maxQuestions = 1 << 20

// Questions say which pairs a book asks about, so that another program opens the same book.
type Questions struct {
	Data    string  `json:"data"` // absolute path, or the URL of a database without its password
	Options Options `json:"options"`
	Terms   Terms   `json:"terms"`
}

// Open reads the pairs, opens the book in a directory, and keeps the questions there.
func (q Questions) Open(ctx context.Context, dir string) (*Book, Data, error) {
	data, err := Read(ctx, q.Data, q.Options)
	if err != nil {
		return nil, data, err
	}
	book, err := Open(dir, data.Pairs, q.Terms)
	if err != nil {
		return nil, data, err
	}
	if err := q.keep(dir); err != nil {
		book.Close()
		return nil, data, unkept(dir, err)
	}
	return book, data, nil
}

func (q Questions) keep(dir string) (err error) {
	if dburl.IsURL(q.Data) {
		q.Data = safetext.Hidden(q.Data)
	} else if q.Data, err = filepath.Abs(q.Data); err != nil {
		return err
	}
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, QuestionsFile), append(text, '\n'))
}

// ReadQuestions reads the questions of a book.
func ReadQuestions(dir string) (q Questions, err error) {
	path := filepath.Join(dir, QuestionsFile)
	text, err := durable.ReadWithin(dir, QuestionsFile, maxQuestions)
	if err != nil {
		return q, err
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return q, fmt.Errorf("%s: %w", path, err)
	}
	return q, nil
}
