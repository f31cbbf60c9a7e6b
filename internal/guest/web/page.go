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

// maxDepth bounds how deep the elements of a page may stand in one another: it
// is walked by recursion.
const maxDepth = 500

// Page is what a web page says.
type Page struct {
	Title    string
	Markdown string
}

// IsHTML reports whether the body is a web page.
func (a Answer) IsHTML() bool {
	return a.ContentType == "text/html" || a.ContentType == "application/xhtml+xml"
}

// Page turns a web page into Markdown. Links in it are absolute.
func (a Answer) Page() (page Page, err error) {
	defer func() { // a library walks over what the page's maker chose
		if what := recover(); what != nil {
			err = fmt.Errorf("the page cannot be turned into Markdown (%v): use Fetch to see it as it is", what)
		}
	}()
	doc, err := html.Parse(strings.NewReader(a.Text()))
	if err != nil {
		return Page{}, fmt.Errorf("the page is no HTML: %w", err)
	}
	at, _ := url.Parse(a.URL) // it was asked for
	page.Title = prune(doc, at, 0)
	convert := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	text, err := convert.ConvertNode(doc)
	if err != nil {
		return Page{}, fmt.Errorf("the page cannot be turned into Markdown (%w): use Fetch to see it as it is", err)
	}
	page.Markdown = strings.ToValidUTF8(strings.TrimSpace(string(text)), "\uFFFD")
	return page, nil
}

// prune takes out what is nothing to read, makes links absolute, and returns
// the title.
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

// absolute completes the address of a link or a picture, and takes out one that
// is data or a script.
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
