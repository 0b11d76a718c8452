package environment

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode"
)

// corpus is a search engine over documents in memory.
type corpus struct {
	all     []document
	numbers map[string]int32 // of documents by id
	words   map[string][]posting
	lengths []float64 // words of each document
	mean    float64   // of lengths
}

// posting says how often a word is in a document.
type posting struct{ of, times int32 }

// openCorpus reads a file of JSON lines.
func openCorpus(path string) (*corpus, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	defer f.Close()
	c := &corpus{numbers: map[string]int32{}, words: map[string][]posting{}}
	lines := bufio.NewReader(f)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := c.add(line); err != nil {
				return nil, fmt.Errorf("corpus: %s:%d: %w", path, number, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
	}
	if len(c.all) == 0 {
		return nil, fmt.Errorf("corpus: %s has no documents", path)
	}
	for _, n := range c.lengths {
		c.mean += n / float64(len(c.lengths))
	}
	return c, nil
}

// add adds a document.
func (c *corpus) add(line []byte) error {
	var d document
	if err := json.Unmarshal(line, &d); err != nil {
		return err
	}
	if _, ok := c.numbers[d.ID]; ok {
		return fmt.Errorf("the id %q is in the file twice", d.ID)
	}
	number := int32(len(c.all))
	c.all, c.numbers[d.ID] = append(c.all, d), number
	words := wordsOf(d.Title + " " + d.Text)
	c.lengths = append(c.lengths, float64(len(words)))
	for _, word := range words {
		list := c.words[word]
		if n := len(list); n > 0 && list[n-1].of == number {
			list[n-1].times++
			continue
		}
		c.words[strings.Clone(word)] = append(list, posting{number, 1})
	}
	return nil
}

// wordsOf returns the words of a text: runs of letters and digits, in small letters.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// bm25K1 bounds what repeated words count, and bm25B how much long documents lose. They are the values
// of the BM25 baselines of BrowseComp-Plus and MS MARCO.
const (
	bm25K1 = 0.9
	bm25B  = 0.4
)

// find ranks documents by BM25 (Robertson and Zaragoza 2009), equal ones in the order of the file.
func (c *corpus) find(_ context.Context, query string, most int) ([]document, error) {
	scores := c.scores(query)
	var hits []int32
	for of := range scores {
		hits = append(hits, of)
	}
	slices.SortFunc(hits, func(a, b int32) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	found := []document{}
	for _, of := range hits[:min(most, len(hits))] {
		found = append(found, c.all[of])
	}
	return found, nil
}

// scores returns the scores of the documents that have a word of the query.
func (c *corpus) scores(query string) map[int32]float64 {
	scores := map[int32]float64{}
	for _, word := range wordsOf(query) {
		list := c.words[word]
		have := float64(len(list))
		rare := math.Log(1 + (float64(len(c.all))-have+0.5)/(have+0.5))
		for _, p := range list {
			times := float64(p.times)
			scores[p.of] += rare * times / (times + bm25K1*(1-bm25B+bm25B*c.lengths[p.of]/c.mean))
		}
	}
	return scores
}

func (c *corpus) document(_ context.Context, id string) (document, error) {
	of, ok := c.numbers[id]
	if !ok {
		return document{}, errNoDocument
	}
	return c.all[of], nil
}
