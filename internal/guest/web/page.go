package web

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxDepth limits the nesting of a page's elements, since the tree is walked
// recursively.
const maxDepth = 500

// Page is the readable content of a web page.
type Page struct {
	Title    string
	Markdown string
}

// IsHTML reports whether the body is HTML.
func (a Answer) IsHTML() bool {
	return a.ContentType == "text/html" || a.ContentType == "application/xhtml+xml"
}

// Page converts a web page to Markdown, with absolute links.
func (a Answer) Page() (page Page, err error) {
	defer func() { // the library processes untrusted input and may panic
		if what := recover(); what != nil {
			err = fmt.Errorf("cannot convert the page to Markdown (%v): use Fetch to get it unconverted", what)
		}
	}()
	doc, err := html.Parse(strings.NewReader(a.Text()))
	if err != nil {
		return Page{}, fmt.Errorf("the page is not HTML: %w", err)
	}
	at, _ := url.Parse(a.URL) // the URL was requested, so it is valid
	page.Title = prune(doc, at, 0)
	convert := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	text, err := convert.ConvertNode(doc)
	if err != nil {
		return Page{}, fmt.Errorf("cannot convert the page to Markdown (%w): use Fetch to get it unconverted", err)
	}
	page.Markdown = strings.ToValidUTF8(strings.TrimSpace(string(text)), "\uFFFD")
	return page, nil
}

// prune removes elements that are not content, makes links absolute, and
// returns the title.
func prune(n *html.Node, at *url.URL, depth int) (title string) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		switch {
		case depth > maxDepth, c.Type == html.CommentNode, c.Type == html.ElementNode && unreadable(c):
			n.RemoveChild(c)
		default:
			if c.Type == html.ElementNode && c.DataAtom == atom.Title && title == "" {
				title = strings.Join(strings.Fields(textIn(c)), " ")
			}
			absolute(c, at)
			if found := prune(c, at, depth+1); title == "" {
				title = found
			}
		}
		c = next
	}
	return title
}

func unreadable(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Svg, atom.Canvas, atom.Object, atom.Embed, atom.Link, atom.Meta, atom.Button, atom.Input, atom.Select, atom.Textarea, atom.Dialog:
		return true
	}
	for _, a := range n.Attr {
		if a.Key == "hidden" || a.Key == "aria-hidden" && a.Val == "true" {
			return true
		}
	}
	return false
}

// absolute makes the URL of a link or an image absolute, and removes data and
// script URLs.
func absolute(n *html.Node, at *url.URL) {
	if n.Type != html.ElementNode {
		return
	}
	for i, a := range n.Attr {
		if a.Key != "href" && a.Key != "src" {
			continue
		}
		to, err := url.Parse(strings.TrimSpace(a.Val))
		if err != nil || to.Scheme == "data" || to.Scheme == "javascript" {
			n.Attr[i].Val = ""
			continue
		}
		if at != nil {
			n.Attr[i].Val = at.ResolveReference(to).String()
		}
	}
}

func textIn(n *html.Node) string {
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}
