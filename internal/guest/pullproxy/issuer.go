package pullproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// lifetime of the certificates. They are made anew at each start of the machine.
const lifetime = 10 * 365 * 24 * time.Hour

// clockSkew allows for a clock of the machine that is set back.
const clockSkew = 24 * time.Hour

// An issuer makes certificates, which only this machine's Docker trusts. Its key
// is never stored.
type issuer struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte // its certificate

	mu   sync.Mutex
	made map[string]tls.Certificate // by host
}

func newIssuer() (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Aloft: registries of this machine"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime), IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &issuer{key: key, cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), made: map[string]tls.Certificate{}}, nil
}

// certificate returns a certificate for a host name or address.
func (i *issuer) certificate(host string) (tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c, ok := i.made[host]; ok {
		return c, nil
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(i.made) + 2)), Subject: pkix.Name{CommonName: host},
		NotBefore: i.cert.NotBefore, NotAfter: i.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, key.Public(), i.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate for %q: %w", host, err)
	}
	c := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	i.made[host] = c
	return c, nil
}
