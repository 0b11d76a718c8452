package workflow

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	_ "modernc.org/sqlite" // the driver
)

// mailTools are the schemas of the tools.
var mailTools = json.RawMessage(`[
{"type": "function", "function": {"name": "search_emails",
 "description": "Finds messages in the inbox whose subject or body has all keywords, the newest first.",
 "parameters": {"type": "object", "required": ["keywords"], "properties": {
  "keywords": {"type": "array", "items": {"type": "string"}},
  "from_addr": {"type": "string", "description": "address of the sender"},
  "to_addr": {"type": "string", "description": "address of a recipient"},
  "sent_after": {"type": "string", "description": "first day, as YYYY-MM-DD"},
  "sent_before": {"type": "string", "description": "day after the last, as YYYY-MM-DD"},
  "max_results": {"type": "integer", "description": "at most 10, which is the default"}}}}},
{"type": "function", "function": {"name": "read_email", "description": "Returns a whole message.",
 "parameters": {"type": "object", "required": ["message_id"], "properties": {"message_id": {"type": "string"}}}}},
{"type": "function", "function": {"name": "generate_response", "description": "Gives the answer and ends the search.",
 "parameters": {"type": "object", "required": ["answer", "sources"], "properties": {
  "answer": {"type": "string"},
  "sources": {"type": "array", "items": {"type": "string"}, "description": "ids of the messages that the answer comes from"}}}}}]`)

// mailArgs are the arguments of all tools.
type mailArgs struct {
	Keywords   []string `json:"keywords"`
	From       string   `json:"from_addr"`
	To         string   `json:"to_addr"`
	After      string   `json:"sent_after"`
	Before     string   `json:"sent_before"`
	MaxResults *int     `json:"max_results"`

	MessageID string `json:"message_id"`

	Answer  string   `json:"answer"`
	Sources []string `json:"sources"`
}

// mostHits bounds the results of a search.
const mostHits = 10

// mailbox reads the mail.
type mailbox struct{ *sql.DB }

func openMailbox(file string) (*mailbox, error) {
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(url.PathEscape(file), "%2F", "/")+"?mode=ro&_pragma=busy_timeout(10000)")
	return &mailbox{db}, err
}

// hit is a message that a search found.
type hit struct {
	MessageID string `json:"message_id"`
	Snippet   string `json:"snippet"`
}

const inInbox = "(e.from_address = ? OR EXISTS (SELECT 1 FROM recipients r WHERE r.email_id = e.id AND r.recipient_address = ?))"

// search finds the newest messages of an inbox.
func (b *mailbox) search(ctx context.Context, inbox string, a mailArgs) (hits []hit, err error) {
	most := mostHits
	if a.MaxResults != nil {
		most = *a.MaxResults
	}
	if len(a.Keywords) == 0 || most < 1 || most > mostHits {
		return nil, fmt.Errorf("want keywords, and max_results from 1 to %d", mostHits)
	}
	words := make([]string, len(a.Keywords))
	for i, w := range a.Keywords {
		words[i] = `"` + strings.ReplaceAll(w, `"`, `""`) + `"`
	}
	where, args := "emails_fts MATCH ? AND "+inInbox, []any{strings.Join(words, " "), inbox, inbox}
	for _, filter := range []struct{ sql, value, arg string }{
		{"e.from_address = ?", a.From, a.From},
		{"EXISTS (SELECT 1 FROM recipients r WHERE r.email_id = e.id AND r.recipient_address = ?)", a.To, a.To},
		{"e.date >= ?", a.After, a.After + " 00:00:00"}, {"e.date < ?", a.Before, a.Before + " 00:00:00"},
	} {
		if filter.value != "" {
			where, args = where+" AND "+filter.sql, append(args, filter.arg)
		}
	}
	rows, err := b.QueryContext(ctx, "SELECT e.message_id, snippet(emails_fts, -1, '<b>', '</b>', ' … ', 15) FROM emails_fts "+
		"JOIN emails e ON e.id = emails_fts.rowid WHERE "+where+" ORDER BY e.date DESC, e.id LIMIT ?", append(args, most)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	hits = []hit{}
	for rows.Next() {
		var h hit
		if err := rows.Scan(&h.MessageID, &h.Snippet); err != nil {
			return nil, err
		}
		hits = append(hits, h)
	}
	return hits, rows.Err()
}

// message is a whole message.
type message struct {
	MessageID string   `json:"message_id"`
	Date      string   `json:"date"`
	Subject   string   `json:"subject"`
	From      string   `json:"from_address"`
	To        []string `json:"to_addresses"`
	CC        []string `json:"cc_addresses"`
	BCC       []string `json:"bcc_addresses"`
	Body      string   `json:"body"`
}

// message returns a message of an inbox.
func (b *mailbox) message(ctx context.Context, inbox, id string) (m message, err error) {
	var key int64
	err = b.QueryRowContext(ctx, "SELECT e.id, e.message_id, coalesce(e.date, ''), coalesce(e.subject, ''), coalesce(e.from_address, ''), "+
		"coalesce(e.body, '') FROM emails e WHERE e.message_id = ? AND "+inInbox, id, inbox, inbox).
		Scan(&key, &m.MessageID, &m.Date, &m.Subject, &m.From, &m.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return m, fmt.Errorf("there is no message %q", id)
	}
	if err != nil {
		return m, err
	}
	rows, err := b.QueryContext(ctx, "SELECT recipient_address, lower(recipient_type) FROM recipients WHERE email_id = ? ORDER BY rowid", key)
	if err != nil {
		return m, err
	}
	defer rows.Close()
	lists := map[string]*[]string{"to": &m.To, "cc": &m.CC, "bcc": &m.BCC}
	for rows.Next() {
		var address, kind string
		if err := rows.Scan(&address, &kind); err != nil {
			return m, err
		}
		if list := lists[kind]; list != nil {
			*list = append(*list, address)
		}
	}
	return m, rows.Err()
}
