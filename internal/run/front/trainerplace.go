package front

import (
	"cmp"
	"os"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// tokenVariable is the environment variable with the token that explorers and the trainer share.
const tokenVariable = "TRINITY_TOKEN"

// TrainerPlace returns the place of the trainer whose weights to serve, or nil.
func TrainerPlace(s *config.Settled, join string) (fleet.Place, error) {
	if join != "" {
		return fleet.At(join, os.Getenv(tokenVariable))
	}
	if place := fleet.In(s.CheckpointJobDir); fleet.Known(place) {
		return place, nil
	}
	return nil, nil
}

// TrainerToken returns the token that explorers must send to the trainer. A trainer that other machines can reach must
// have one that nobody can guess.
func TrainerToken(s *config.Settled) (string, error) {
	token := cmp.Or(os.Getenv(tokenVariable), fleet.NewToken())
	if err := web.CheckToken(s.Trainer.ListenAddress, token); err != nil {
		return "", s.At("trainer.listen_address", err.Error(), "set "+tokenVariable+" to a longer token, or leave it out")
	}
	return token, nil
}
