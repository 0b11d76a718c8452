package trainer

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// Cutter is a trainer that cuts experiences into micro-batches itself, because it knows its ranks
// and their memory. For other engines the trainer cuts by tokens.
type Cutter interface {
	engine.Trainer
	// Cut cuts experiences into consecutive pieces. The engine computes each piece at once. Cut keeps
	// the experiences of a unit, unit·i to unit·(i+1)−1, together.
	Cut(exps []*trinity.Experience, unit int) [][]*trinity.Experience
}

// Distiller is a trainer that compares its distribution of each next token with the teachers'.
type Distiller interface {
	engine.Trainer
	// SetTeachers sets the models that Streams.Divergence compares with, by Experience.Teacher. They
	// are engines of the same type; forward passes are enough. The vocabulary of a teacher begins with
	// this engine's; the engine ignores the rest, such as padding. The caller keeps the teachers open
	// as long as it asks for divergences.
	SetTeachers(teachers map[string]engine.Trainer) error
}
