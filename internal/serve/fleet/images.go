package fleet

import (
	"context"
	"fmt"
	"net/http"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/failpoint"
)

// failImages is when the trainer has the images of a delivery, before the client sends the delivery.
var failImages = failpoint.New("images.sent")

// handleImage keeps an image of an explorer, which is on the disk when the reply says so.
func (s *Server) handleImage(w http.ResponseWriter, r *http.Request) {
	_, _, err := s.sender(r)
	if err == nil {
		err = keepImage(w, r, blobs.In(s.Dir))
	}
	answer(w, struct{}{}, err)
}

func keepImage(w http.ResponseWriter, r *http.Request, store blobs.Store) error {
	digest := r.PathValue("digest")
	file, err := receive(w, r, blobs.MaxBytes)
	if err != nil {
		return err
	}
	if got := blobs.Digest(file); got != digest {
		return fmt.Errorf("%w: the image has the digest %s, and the request says %.80q", errBad, got, digest)
	}
	_, err = store.Put(file)
	return err
}

// putImages sends the images of a delivery that the trainer has not acknowledged yet, so that it has them
// before an experience names them.
func (c *Client) putImages(ctx context.Context, d trinity.Delivery) error {
	own, sent := blobs.In(c.Dir), 0
	for _, group := range d.Groups {
		for _, e := range group {
			for i, image := range e.Images {
				if c.shown[image.Digest] {
					continue
				}
				file, err := own.Get(image.Digest)
				if err != nil {
					return fmt.Errorf("experience %s: images[%d]: %w", e.ID, i, err)
				}
				if err := c.putImage(ctx, image.Digest, file); err != nil {
					return err
				}
				c.shown[image.Digest] = true
				sent++
			}
		}
	}
	if sent == 0 {
		return nil
	}
	return failImages.Hit("")
}

func (c *Client) putImage(ctx context.Context, digest string, file []byte) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.persist(ctx, "take the image "+digest, func(ctx context.Context, at address) error {
		return c.request(ctx, at, http.MethodPut, c.path("/images/"+digest), file, nil)
	})
}
