package environment

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"modernc.org/libc"
	driver "modernc.org/sqlite"
	library "modernc.org/sqlite/lib"

	"github.com/trinity-go/trinity/internal/process"
)

// Bounds of a query. SQLite cannot be interrupted within a function, such as instr of two long
// texts, so a query runs in a child process, which ends at its time.
const (
	mostInValue   = 1 << 20   // bytes of a value
	mostInResult  = 16 << 20  // bytes of all rows
	mostRows      = 100_000   // of a result
	mostInQuery   = 1 << 20   // bytes
	mostInProcess = 512 << 20 // bytes of memory, with what SQLite sorts; on Linux
	startTime     = 30 * time.Second
)

// interview is what a child process asks a database: queries, one after the other.
type interview struct {
	File, Setup string // one of them is ""
	Queries     []string
	Limit       time.Duration // of each query
}

// findings are its answers: a table for each query, until one is wrong.
type findings struct {
	Tables []*table
	Wrong  string // why the last query has none
}

// table is the result of a query. Its texts may be any bytes, which a string of JSON may not.
type table struct {
	Columns []string
	Rows    []string // each as one text
}

// MarshalJSON implements json.Marshaler.
func (t *table) MarshalJSON() ([]byte, error) {
	return json.Marshal([][][]byte{toBytes(t.Columns), toBytes(t.Rows)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *table) UnmarshalJSON(data []byte) error {
	var texts [2][][]byte
	if err := json.Unmarshal(data, &texts); err != nil {
		return err
	}
	t.Columns, t.Rows = toTexts(texts[0]), toTexts(texts[1])
	return nil
}

func toBytes(texts []string) [][]byte {
	all := make([][]byte, len(texts))
	for i, text := range texts {
		all[i] = []byte(text)
	}
	return all
}

func toTexts(all [][]byte) []string {
	texts := make([]string, len(all))
	for i, text := range all {
		texts[i] = string(text)
	}
	return texts
}

var sqliteProcess = process.ConfineTo("sqlite", mostInProcess, func(in *io.SectionReader, out io.Writer) error {
	var i interview
	if err := json.NewDecoder(in).Decode(&i); err != nil {
		return err
	}
	ctx := context.Background()
	conn, err := i.connect(ctx)
	if err != nil {
		return err
	}
	to, once := json.NewEncoder(out), sync.Once{}
	if err := to.Encode(true); err != nil { // what fails from here on is the query's
		return err
	}
	var found findings
	for _, q := range i.Queries {
		late := time.AfterFunc(i.Limit, func() {
			once.Do(func() {
				_ = to.Encode(findings{Wrong: fmt.Sprintf("the query took longer than %v", i.Limit)}) // else the parent sees the end
				os.Exit(0)
			})
		})
		t, err := run(ctx, conn, q)
		late.Stop()
		if err != nil {
			found.Wrong = err.Error()
			break
		}
		found.Tables = append(found.Tables, t)
	}
	once.Do(func() { err = to.Encode(found) })
	return err
})

// ask asks a database in a child process. wrong is the error of a query that has no result.
func (i *interview) ask(ctx context.Context) (found findings, wrong, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime+i.Limit*time.Duration(len(i.Queries)),
		errors.New("the process of SQLite does not answer"))
	defer cancel()
	pipe, into := io.Pipe()
	go func() { _ = into.CloseWithError(json.NewEncoder(into).Encode(i)) }() // the process says what it could not read
	defer pipe.Close()
	var began bool
	err = sqliteProcess.Run(ctx, pipe, func(out io.Reader) error {
		from := json.NewDecoder(io.LimitReader(out, 4*mostInResult))
		if err := from.Decode(&began); err != nil {
			return err
		}
		return from.Decode(&found)
	})
	switch {
	case ctx.Err() != nil:
		return found, nil, context.Cause(ctx)
	case err != nil && began:
		return found, err, nil
	case found.Wrong != "":
		return found, errors.New(found.Wrong), nil
	}
	return found, nil, err
}

// connect opens the database for reading alone.
func (i *interview) connect(ctx context.Context) (*sql.Conn, error) {
	address := ":memory:"
	if i.File != "" {
		address = "file:" + strings.ReplaceAll(url.PathEscape(i.File), "%2F", "/") + "?mode=ro&_pragma=busy_timeout(10000)"
	}
	pool, err := sql.Open("sqlite", address)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, i.Setup); err != nil {
		return nil, fmt.Errorf("column \"setup\": %w", err)
	}
	if _, err := conn.ExecContext(ctx, "PRAGMA temp_store = memory"); err != nil { // no query fills the disk
		return nil, err
	}
	for id, most := range map[int]int{library.SQLITE_LIMIT_ATTACHED: 0, library.SQLITE_LIMIT_LENGTH: mostInValue,
		library.SQLITE_LIMIT_SQL_LENGTH: mostInQuery} {
		if _, err := driver.Limit(conn, id, most); err != nil { // no other file of this machine is read or written
			return nil, err
		}
	}
	return conn, conn.Raw(authorize)
}

// authorize lets a connection of the driver only read. The driver has no function for it.
func authorize(conn any) error {
	fields := reflect.Indirect(reflect.ValueOf(conn))
	db, tls := fields.FieldByName("db"), fields.FieldByName("tls")
	if !db.IsValid() || !tls.IsValid() || tls.Type() != reflect.TypeFor[*libc.TLS]() {
		return errors.New("this version of the SQLite driver has no place for an authorizer")
	}
	call := struct {
		f func(*libc.TLS, uintptr, int32, uintptr, uintptr, uintptr, uintptr) int32
	}{allow}
	code := library.Xsqlite3_set_authorizer((*libc.TLS)(tls.UnsafePointer()), uintptr(db.Uint()), *(*uintptr)(unsafe.Pointer(&call)), 0)
	if code != library.SQLITE_OK {
		return fmt.Errorf("SQLite takes no authorizer: error %d", code)
	}
	return nil
}

// What queries may ask of the schema, and functions that reach beyond the database.
var (
	readPragmas = []string{"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"}
	notAllowed  = []string{"load_extension", "fts3_tokenizer", "edit", "readfile", "writefile"}
)

// allow is SQLite's authorizer: it allows what only reads.
func allow(_ *libc.TLS, _ uintptr, action int32, first, second, _, _ uintptr) int32 {
	switch action {
	case library.SQLITE_SELECT, library.SQLITE_READ, library.SQLITE_RECURSIVE:
		return library.SQLITE_OK
	case library.SQLITE_FUNCTION:
		if !slices.Contains(notAllowed, strings.ToLower(libc.GoString(second))) {
			return library.SQLITE_OK
		}
	case library.SQLITE_PRAGMA:
		if slices.Contains(readPragmas, strings.ToLower(libc.GoString(first))) {
			return library.SQLITE_OK
		}
	}
	return library.SQLITE_DENY
}

// run returns the result of a query.
func run(ctx context.Context, conn *sql.Conn, text string) (*table, error) {
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := &table{}
	if t.Columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	values, into := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range into {
		into[i] = &values[i]
	}
	bytes := 0
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		if len(t.Rows) == mostRows {
			return nil, fmt.Errorf("the result has more than %d rows", mostRows)
		}
		cells := make([]string, len(values))
		for i, v := range values {
			cells[i] = cellText(v)
			bytes += len(cells[i])
		}
		if bytes > mostInResult {
			return nil, fmt.Errorf("the result has more than %d MiB", mostInResult>>20)
		}
		t.Rows = append(t.Rows, strings.Join(cells, " | "))
	}
	return t, rows.Err()
}

// cellText returns a value as the policy reads it. Equal numbers of different types are equal texts.
func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case float64:
		return strconv.FormatFloat(v, 'g', 12, 64)
	case int64:
		if n := float64(v); max(n, -n) < 1e12 {
			return cellText(n)
		}
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
}
