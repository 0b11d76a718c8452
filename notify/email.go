package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"os"
	"strings"
	"time"
)

// Email is a mail server with an account, and who gets mail.
type Email struct {
	Enabled     *bool    `yaml:"enabled"`
	Server      string   `yaml:"smtp_server"`
	Port        int      `yaml:"smtp_port"` // 0 is 465
	UseSSL      *bool    `yaml:"use_ssl"`   // not set is true; false, at another port than 465, begins in the clear and goes on with TLS
	Username    string   `yaml:"username"`  // "" is the sender's address
	Password    string   `yaml:"password"`  // "" is DATA_JUICER_EMAIL_PASSWORD of the environment
	SenderEmail string   `yaml:"sender_email"`
	SenderName  string   `yaml:"sender_name"`
	Recipients  []string `yaml:"recipients"`

	roots *x509.CertPool // of tests; nil is the system's
}

const mailsPort = 465 // over TLS

func (e *Email) validate() error {
	if e.Server == "" {
		return errors.New("smtp_server: name the mail server")
	}
	if len(e.Recipients) == 0 {
		return errors.New("recipients: name one")
	}
	for _, address := range append([]string{e.SenderEmail}, e.Recipients...) {
		if _, err := mail.ParseAddress(address); err != nil {
			return fmt.Errorf("%q is no mail address: %w", address, err)
		}
	}
	return nil
}

func (e *Email) send(ctx context.Context, subject, text string) error {
	client, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := e.login(client); err != nil {
		return err
	}
	if err := client.Mail(e.SenderEmail); err != nil {
		return err
	}
	for _, r := range e.Recipients {
		to, err := mail.ParseAddress(r)
		if err != nil {
			return err
		}
		if err := client.Rcpt(to.Address); err != nil {
			return err
		}
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	message, err := e.message(subject, text, time.Now())
	if err != nil {
		return err
	}
	if _, err := w.Write(message); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return client.Quit()
}

// dial connects, over TLS at once where that is asked for, else as soon as the server offers it.
func (e *Email) dial(ctx context.Context) (*smtp.Client, error) {
	port := e.Port
	if port == 0 {
		port = mailsPort
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(e.Server, fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	secure := &tls.Config{ServerName: e.Server, RootCAs: e.roots}
	overTLS := e.UseSSL == nil || *e.UseSSL || port == mailsPort
	if overTLS {
		conn = tls.Client(conn, secure)
	}
	client, err := smtp.NewClient(conn, e.Server)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if offered, _ := client.Extension("STARTTLS"); offered && !overTLS {
		if err := client.StartTLS(secure); err != nil {
			return nil, errors.Join(err, client.Close())
		}
	}
	return client, nil
}

// login shows the password, which net/smtp refuses to send in the clear to another machine.
func (e *Email) login(client *smtp.Client) error {
	user, password := e.Username, e.Password
	if user == "" {
		user = e.SenderEmail
	}
	if password == "" {
		password = os.Getenv("DATA_JUICER_EMAIL_PASSWORD")
	}
	if offered, _ := client.Extension("AUTH"); !offered || password == "" {
		return nil
	}
	return client.Auth(smtp.PlainAuth("", user, password, e.Server))
}

func (e *Email) message(subject, text string, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	for _, header := range [][2]string{
		{"From", (&mail.Address{Name: e.SenderName, Address: e.SenderEmail}).String()}, {"To", strings.Join(e.Recipients, ", ")},
		{"Subject", mime.QEncoding.Encode("utf-8", subject)}, {"Date", now.Format(time.RFC1123Z)},
		{"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&out, "%s: %s\r\n", header[0], header[1])
	}
	out.WriteString("\r\n")
	body := quotedprintable.NewWriter(&out)
	if _, err := body.Write([]byte(text + "\n")); err != nil {
		return nil, err
	}
	err := body.Close()
	return out.Bytes(), err
}
