package database

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	driver "modernc.org/sqlite"
	library "modernc.org/sqlite/lib"
)

// Column is a value of a row, in JSON's types: numbers are numbers, times are RFC 3339 in UTC, JSON
// stays JSON, bytes are text if they are UTF-8, else base64.
type Column struct {
	Name  string
	Value any
}

// Stream reads the rows of a table, or of a query whose first word is SELECT or WITH, in a
// read-only transaction. It reads a table in the order of its column id, or in the order of rows if
// SQLite has no such column.
func (db *DB) Stream(ctx context.Context, from string, row func([]Column) error) error {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if db.kind == sqlite {
		if err := confine(conn); err != nil {
			return err
		}
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: db.kind != sqlite}) // the whole connection to SQLite is read-only
	if err != nil {
		return err
	}
	defer tx.Rollback() // there is nothing to commit
	query := from
	if !isQuery(from) {
		if query, err = db.ordered(ctx, tx, from); err != nil {
			return err
		}
	}
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	values, into, columns := make([]any, len(types)), make([]any, len(types)), make([]Column, len(types))
	for i := range into {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, t := range types {
			columns[i] = Column{t.Name(), jsonOf(values[i], strings.ToUpper(t.DatabaseTypeName()))}
		}
		if err := row(columns); err != nil {
			return err
		}
	}
	return rows.Err()
}

// maxValue bounds a value of SQLite, in bytes. A query can make one of a gigabyte of nothing.
const maxValue = 64 << 20

// confine lets a connection to SQLite open no other file: a query may have further statements after its
// first one, and mode=ro does not hold for the files that they attach.
func confine(conn *sql.Conn) error {
	for id, most := range map[int]int{library.SQLITE_LIMIT_ATTACHED: 0, library.SQLITE_LIMIT_LENGTH: maxValue} {
		if _, err := driver.Limit(conn, id, most); err != nil {
			return err
		}
	}
	return nil
}

// isQuery reports whether from is a query, not the name of a table: its first word, after comments
// and parentheses, is SELECT or WITH, and something follows that is not part of a name.
func isQuery(from string) bool {
	text := firstWord(from)
	for _, word := range []string{"select", "with"} {
		if n := len(word); len(text) > n && strings.EqualFold(text[:n], word) {
			next, _ := utf8.DecodeRuneInString(text[n:])
			inName := next == '_' || next == '.' || next == '$' || unicode.IsLetter(next) || unicode.IsDigit(next)
			return !inName && firstWord(text[n:]) != ""
		}
	}
	return false
}

// firstWord returns SQL from its first word on.
func firstWord(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f\v(")
		var closed bool
		switch {
		case strings.HasPrefix(text, "--"):
			_, text, closed = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			_, text, closed = strings.Cut(text[2:], "*/")
		default:
			return text
		}
		if !closed {
			return ""
		}
	}
}

// ordered returns the query for the rows of a table.
func (db *DB) ordered(ctx context.Context, tx *sql.Tx, table string) (string, error) {
	parts := strings.Split(table, ".")
	for i, p := range parts {
		parts[i] = db.quoted(p)
	}
	query := "SELECT * FROM " + strings.Join(parts, ".")
	rows, err := tx.QueryContext(ctx, query+" WHERE 1 = 0")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, "id") })
	switch {
	case at >= 0:
		return query + " ORDER BY " + db.quoted(names[at]), nil
	case db.kind == sqlite:
		return query + " ORDER BY rowid", nil
	}
	return "", fmt.Errorf("table %s has no column id to order its rows by: write a query with ORDER BY instead", table)
}

// quoted returns a name in quotes.
func (db *DB) quoted(name string) string {
	mark := `"`
	if db.kind == mySQL {
		mark = "`"
	}
	return mark + strings.ReplaceAll(name, mark, mark+mark) + mark
}

func jsonOf(v any, kind string) any {
	switch v := v.(type) {
	case int64:
		if kind == "BOOLEAN" || kind == "BOOL" { // SQLite has none
			return v != 0
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case []byte:
		if !utf8.Valid(v) {
			return base64.StdEncoding.EncodeToString(v)
		}
		return textOf(string(v), kind)
	case string:
		return textOf(v, kind)
	}
	return v
}

func textOf(text, kind string) any {
	number := kind == "NUMERIC" || kind == "DECIMAL"
	if (number || strings.HasPrefix(kind, "JSON")) && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}
