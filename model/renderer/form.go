package renderer

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/constraint"
)

// Constrain compiles a form of replies, with what the model's format says: how it calls tools, whether a
// reply may have several calls, and how it marks its thinking.
func (r *Renderer) Constrain(form constraint.Form) (trinity.Constraint, error) {
	if form.Calls != nil {
		calls := *form.Calls
		calls.Format, calls.Pattern, calls.Several = r.callFormat, r.callPattern, calls.Several && !r.oneCall
		form.Calls = &calls
	}
	if form.Opens && r.thinking.parsed && r.thinking.marked {
		form.Thinking = constraint.Thinking{Open: r.thinking.open, Close: r.thinking.close, Opened: r.thinking.opens}
	}
	return r.vocabulary().Compile(form)
}
