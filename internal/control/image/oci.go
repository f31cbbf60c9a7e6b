package image

import (
	"context"
	"errors"
)

func (s *Store) prepareOCI(ctx context.Context, ref string) (Image, error) {
	return Image{}, errors.New("todo")
}
