package google_test

import (
	"testing"

	"aloft/internal/control/model"
	"aloft/internal/control/model/google"
	"aloft/internal/control/model/modeltest"
)

func TestModel(t *testing.T) {
	modeltest.Run(t, modeltest.Provider{
		Start: modeltest.NewGoogle,
		New: func(t testing.TB, url, key, name string) model.Model {
			m, err := google.New(google.Config{Name: name, BaseURL: url, Key: key, Thinking: -1, Schema: true})
			if err != nil {
				t.Fatal(err)
			}
			return m
		},
	})
}
