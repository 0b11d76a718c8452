package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity/durable"
)

// keep puts a row among those of its processor and day in dir, a row a line. A row of the same workload, storage and forced kernels is replaced.
func keep(dir string, m machine, row Row) error {
	path := filepath.Join(dir, m.Date+"-"+slug(m.CPU)+".json")
	rows, err := readRows(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool {
		return r.Workload == row.Workload && r.DType == row.DType && r.Kernels == row.Kernels
	})
	rows = append(rows, row)
	slices.SortStableFunc(rows, func(a, b Row) int { return slices.Index(names(), a.Workload) - slices.Index(names(), b.Workload) })
	var lines bytes.Buffer
	for _, r := range rows {
		if err := json.NewEncoder(&lines).Encode(r); err != nil {
			return err
		}
	}
	return errors.Join(os.MkdirAll(dir, 0o755), durable.WriteFile(path, lines.Bytes()))
}

func readRows(path string) ([]Row, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows, err := decodeRows(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

func decodeRows(data []byte) ([]Row, error) {
	var rows []Row
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var r Row
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
}

// report is what a document says of the rows of a file: a table, then how each row came about.
func report(rows []Row) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	first := &rows[0]
	fmt.Fprintf(&b, "### %s, %d cores, %s\n\n", first.Machine.CPU, first.Machine.Cores, first.Machine.Date)
	fmt.Fprintf(&b, "Limits: %.0f GFLOP/s f32, %.1f GB/s. Peers: %s.\n\n", first.Limits.GFLOPs, first.Limits.GBps, versions(rows))
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for i := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(rows[i].cells(), " | "))
	}
	b.WriteString("\n| workload | commit | command | our runs | their runs |\n|---|---|---|---|---|\n")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s |\n", r.cells()[0], r.Machine.Commit, r.Command, runsText(r.OurRuns), runsText(r.TheirRuns))
	}
	return b.String()
}

func versions(rows []Row) string {
	for i := range rows {
		if rows[i].PeerVersions != "" {
			return rows[i].PeerVersions
		}
	}
	return "none"
}

func runsText(runs []sample) string {
	if len(runs) == 0 {
		return "–"
	}
	var out []string
	for _, s := range runs {
		text := number(s.Value)
		if s.Loss != 0 {
			text += fmt.Sprintf(" (loss %.4f)", s.Loss)
		}
		if s.Rollout != 0 {
			text += fmt.Sprintf(" (rollout %s s)", number(s.Rollout))
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// slug makes a file name of a text.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}
