package annotate

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/web"
)

//go:embed page
var page embed.FS

// Server serves the page and its API. Texts of models and annotators reach the browser as JSON and
// are shown as plain text.
type Server struct {
	Book  *Book
	Token string // that requests for data must carry; "" answers whoever asks for a loopback name, which a page of another site cannot
}

// maxRequest bounds a request of the page, in bytes.
const maxRequest = 4 << 20

// Handler answers GET / with the page, and POST /api/next, /api/decide and /api/undo with the pair
// to judge. Requests and replies of the API are JSON; an error is {"error": "…"}.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]string{"/{$}": "index.html", "/page.js": "page.js", "/page.css": "page.css"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, page, "page/"+file) })
	}
	for path, answer := range map[string]func(request) (*Shown, error){"next": s.next, "decide": s.decide, "undo": s.undo} {
		asked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, answer) })
		mux.Handle("POST /api/"+path, web.WithToken(asked, s.Token, "trinity annotate", web.Refuse))
	}
	return web.Secured(web.Guard(mux, s.Token, web.Refuse))
}

// sides holds a value for each answer, in the order that the annotator sees.
type sides[T any] struct {
	Left  T `json:"left"`
	Right T `json:"right"`
}

// inOrder returns the values in the order of the data.
func inOrder[T any](s sides[T], left int) [2]T {
	if left == 0 {
		return [2]T{s.Left, s.Right}
	}
	return [2]T{s.Right, s.Left}
}

func asShown[T any](of [2]T, left int) sides[T] { return sides[T]{of[left], of[1-left]} }

// request is a request of the page. next and undo read the annotator alone.
type request struct {
	Annotator string         `json:"annotator"`
	Pair      string         `json:"pair"`
	Verdict   string         `json:"verdict"` // left, right, tie or skip
	Ratings   sides[int]     `json:"ratings"`
	Edits     sides[*string] `json:"edits"`
}

// reply is the answer to a request.
type reply struct {
	Pair     *pairView `json:"pair"` // null if there is no pair to judge
	Progress Progress  `json:"progress"`
	Renew    float64   `json:"renew"` // seconds after which the page asks for the pair again to renew its lease
}

type pairView struct {
	ID     string            `json:"id"`
	Prompt []trinity.Message `json:"prompt"`
	sides[string]
	Before *decisionView `json:"before,omitempty"`
}

type decisionView struct {
	Ratings sides[int]     `json:"ratings"`
	Edits   sides[*string] `json:"edits"`
}

func (s *Server) next(r request) (*Shown, error) { return s.Book.Next(r.Annotator) }

func (s *Server) undo(r request) (*Shown, error) {
	shown, err := s.Book.Undo(r.Annotator)
	if shown == nil && err == nil {
		return s.Book.Next(r.Annotator)
	}
	return shown, err
}

func (s *Server) decide(r request) (*Shown, error) {
	left := s.Book.Left(r.Pair, r.Annotator)
	verdict := Verdict(r.Verdict)
	switch r.Verdict {
	case "left":
		verdict = [2]Verdict{First, Second}[left]
	case "right":
		verdict = [2]Verdict{Second, First}[left]
	case "tie", "skip":
	default:
		return nil, mistake("verdict %q: want left, right, tie or skip", r.Verdict)
	}
	d := Decision{Pair: r.Pair, Annotator: r.Annotator, Verdict: verdict, Ratings: inOrder(r.Ratings, left), Edits: inOrder(r.Edits, left)}
	if err := s.Book.Decide(d); err != nil {
		return nil, err
	}
	return s.Book.Next(r.Annotator)
}

// serve decodes a request and writes the reply.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, answer func(request) (*Shown, error)) {
	data, status, err := web.Body(w, r, maxRequest)
	if err != nil {
		web.Refuse(w, status, err)
		return
	}
	var in request
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		web.Refuse(w, http.StatusBadRequest, err)
		return
	}
	shown, err := answer(in)
	if err != nil {
		web.Refuse(w, statusOf(err), err)
		return
	}
	out := reply{Progress: s.Book.Progress(in.Annotator), Renew: s.Book.terms.Lease.Seconds() / 3}
	if shown != nil {
		out.Pair = &pairView{ID: shown.ID, Prompt: shown.Prompt.messages(), sides: asShown(shown.Answers, shown.Left)}
		if b := shown.Before; b != nil {
			out.Pair.Before = &decisionView{asShown(b.Ratings, shown.Left), asShown(b.Edits, shown.Left)}
		}
	}
	web.WriteJSON(w, http.StatusOK, out)
}

// statusOf returns the HTTP status of an error: 4xx for mistakes in the request, 500 for a failed
// write of the log.
func statusOf(err error) int {
	var mistake Mistake
	switch {
	case errors.Is(err, ErrDecided):
		return http.StatusConflict
	case errors.As(err, &mistake):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
