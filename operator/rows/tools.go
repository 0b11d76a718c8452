package rows

// ToolUser is a trinity.TaskOperator that needs tools. The task pipeline calls UseTools once,
// before the first row.
type ToolUser interface{ UseTools(Tools) }

// Tools are the services of the task pipeline for an operator that asks others, such as a model.
type Tools struct {
	Answers  AnswerStore
	Parallel int          // concurrent questions, at least 1
	Say      func(string) // prints a line for people
}

// AnswerStore stores expensive answers, so that no operator asks twice. It is safe for
// concurrent use.
type AnswerStore interface {
	// Answer returns the answer that was put under the key; ok is false if there is none.
	Answer(key string) (answer []byte, ok bool, err error)
	// Put keeps an answer. The answer is on disk when Put returns.
	Put(key string, answer []byte) error
}
