"""How languages name days, weeks, months and years, as patterns for time_expressions.py.

A pattern is a regular expression in which {n} is a number, {unit} a unit of time, {month}, {day}
and {year} the parts of a date and {weekday} a day of the week. Spaces match any white space.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY, WEEK, MONTH, YEAR = "day", "week", "month", "year"


@dataclass(frozen=True, slots=True)
class Language:
    """The words of one language for times."""

    months: str
    """The names of the twelve months, with | between the forms of one."""
    weekdays: str
    """The names of the days, from Monday."""
    units: dict[str, str]
    near: dict[tuple[str, int], str]
    """The expressions for the unit that lies so many units from the present one."""
    dates: tuple[str, ...]
    """Patterns with a month, and with a day or a year if it is said."""
    years: str
    """The pattern of a whole year."""
    on_weekday: str
    """The pattern of the latest such day before today."""
    of_last_week: str
    """The pattern of a weekday of the week before."""
    ago: str
    within: str
    """The pattern of a number of units up to now."""
    since: str
    """The words before a time (in CJK: after it) if the period begins then."""
    before: str
    after: str
    numbers: str = ""
    """The words for the numbers from 1, with | between the forms of one."""
    spaced: bool = True
    """Whether words are separated by spaces."""


ENGLISH = Language(
    months="january|jan[.]? february|feb[.]? march|mar[.]? april|apr[.]? may june|jun[.]? "
    "july|jul[.]? august|aug[.]? september|sept?[.]? october|oct[.]? november|nov[.]? "
    "december|dec[.]?",
    weekdays="monday tuesday wednesday thursday friday saturday sunday",
    units={DAY: "days?", WEEK: "weeks?", MONTH: "months?", YEAR: "years?"},
    near={
        (DAY, 0): "today|this morning|this afternoon|tonight",
        (DAY, -1): "yesterday|last night",
        (DAY, -2): "(?:the )?day before yesterday",
        (WEEK, 0): "this week",
        (WEEK, -1): "(?:last|past|previous) week",
        (MONTH, 0): "this month",
        (MONTH, -1): "(?:last|past|previous) month",
        (YEAR, 0): "this year",
        (YEAR, -1): "(?:last|past|previous) year",
    },
    dates=(
        "(?:on )?(?:the )?{day}(?:st|nd|rd|th)? (?:of )?{month}(?:,? {year})?",
        "(?:on )?{month} {day}(?:st|nd|rd|th)?(?:,? {year})?",
        "(?:in |during )?{month},? (?:of )?{year}",
        "(?:in|during|last|this|before|after|since|until|by|and) {month}"
        r"(?![\w'’]|,?\s+(?:of\s+)?\d)",
    ),
    years=r"(?:in|during|of|before|after|since|until|and) {year}(?![-/.]?\d)",
    on_weekday="(?:last|on|since|before|after|until) {weekday}",
    of_last_week="{weekday} (?:of )?last week",
    ago="{n} {unit} ago",
    within="(?:(?:in|during|over) )?(?:the )?(?:last|past) {n} {unit}",
    since="since",
    before="before|until",
    after="after",
    numbers="one|an? two three four five six seven eight nine ten",
)
GERMAN = Language(
    months="januar|jänner|jan[.]? februar|feb[.]? märz april mai juni juli august|aug[.]? "
    "september|sept?[.]? oktober|okt[.]? november|nov[.]? dezember|dez[.]?",
    weekdays="montag dienstag mittwoch donnerstag freitag samstag|sonnabend sonntag",
    units={DAY: "tage?n?", WEEK: "wochen?", MONTH: "monate?n?", YEAR: "jahre?n?"},
    near={
        (DAY, 0): "heute(?: morgen| früh| mittag| abend)?",
        (DAY, -1): "gestern(?: abend)?",
        (DAY, -2): "vorgestern",
        (WEEK, 0): "(?:in )?diese[rn]? woche",
        (WEEK, -1): "(?:in )?(?:der )?(?:letzte|vorige|vergangene)[rn]? woche",
        (MONTH, 0): "(?:in )?diese[nms] monats?",
        (MONTH, -1): "(?:im )?(?:letzte|vorige|vergangene)[nm] monat",
        (YEAR, 0): "(?:in )?diese[sm] jahr|heuer",
        (YEAR, -1): "(?:im )?(?:letzte|vorige|vergangene)[sn] jahre?s?",
    },
    dates=(
        "(?:am )?{day}[.] ?{month}(?: {year})?",
        "(?:im )?(?:monat )?{month} {year}",
        "(?:im|letzten|seit|vor|nach|bis)(?: letzten)? {month}(?: {year})?",
    ),
    years="(?:im jahr|in|seit|vor|nach|bis) {year}",
    on_weekday="(?:am|seit|vor|nach|bis|letzten|am letzten|vergangenen|vorigen) {weekday}",
    of_last_week="{weekday} (?:der )?letzter? woche",
    ago="vor {n} {unit}",
    within="(?:in )?(?:den |die |der )?(?:letzten|vergangenen) {n} {unit}",
    since="seit",
    before="vor|bis",
    after="nach",
    numbers="eine[rmn]?|ein zwei drei vier fünf sechs sieben acht neun zehn",
)
FRENCH = Language(
    months="janvier|janv[.]? février|févr[.]? mars avril mai juin juillet|juil[.]? août "
    "septembre|sept[.]? octobre|oct[.]? novembre|nov[.]? décembre|déc[.]?",
    weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche",
    units={DAY: "jours?", WEEK: "semaines?", MONTH: "mois", YEAR: "ans?|années?"},
    near={
        (DAY, 0): "aujourd['’]hui|ce matin|ce soir",
        (DAY, -1): "hier(?: soir| matin)?",
        (DAY, -2): "avant-hier",
        (WEEK, 0): "cette semaine",
        (WEEK, -1): "(?:la )?semaine (?:dernière|passée|précédente)",
        (MONTH, 0): "ce mois(?:-ci)?",
        (MONTH, -1): "(?:le )?mois (?:dernier|passé|précédent)",
        (YEAR, 0): "cette année",
        (YEAR, -1): "l['’]année (?:dernière|passée)|l['’]an (?:dernier|passé)",
    },
    dates=(
        "(?:le )?{day}(?:er)? {month}(?: {year})?",
        "(?:en |au mois de )?{month} {year}",
        "(?:en|au mois de|depuis|avant|après|jusqu['’]en) {month}(?: {year})?",
    ),
    years="(?:en|depuis|avant|après) {year}",
    on_weekday="{weekday} (?:dernier|passé)|(?:depuis|avant|après|le) {weekday}",
    of_last_week="{weekday} de la semaine dernière",
    ago="il y a {n} {unit}",
    within="(?:(?:ces|les|des|pendant les) )?{n} derni(?:er|ère)s {unit}",
    since="depuis",
    before="avant|jusqu['’]en",
    after="après",
    numbers="une? deux trois quatre cinq six sept huit neuf dix",
)
SPANISH = Language(
    months="enero|ene[.]? febrero|feb[.]? marzo|mar[.]? abril|abr[.]? mayo junio|jun[.]? "
    "julio|jul[.]? agosto|ago[.]? sep?tiembre|sept?[.]? octubre|oct[.]? noviembre|nov[.]? "
    "diciembre|dic[.]?",
    weekdays="lunes martes miércoles jueves viernes sábado domingo",
    units={DAY: "días?", WEEK: "semanas?", MONTH: "mes(?:es)?", YEAR: "años?"},
    near={
        (DAY, 0): "hoy|esta mañana|esta noche",
        (DAY, -1): "ayer|anoche",
        (DAY, -2): "anteayer|antes de ayer",
        (WEEK, 0): "(?:en )?esta semana",
        (WEEK, -1): "(?:en )?(?:la )?(?:semana pasada|última semana|semana anterior)",
        (MONTH, 0): "(?:en )?este mes",
        (MONTH, -1): "(?:en )?(?:el )?(?:mes pasado|último mes|mes anterior)",
        (YEAR, 0): "(?:en )?este año",
        (YEAR, -1): "(?:en )?(?:el )?(?:año pasado|último año)",
    },
    dates=(
        "(?:el )?{day} de {month}(?:(?: del?)? {year})?",
        "(?:en )?{month}(?: del?)? {year}",
        "(?:en|durante|desde|antes de|después de|hasta) {month}(?:(?: del?)? {year})?",
    ),
    years="(?:en|desde|antes de|después de|hasta) {year}",
    on_weekday="(?:el )?{weekday} pasado|(?:desde )?el (?:pasado )?{weekday}",
    of_last_week="{weekday} de la semana pasada",
    ago="hace {n} {unit}",
    within="(?:en )?(?:los |las )?últim[oa]s {n} {unit}",
    since="desde",
    before="antes del?|hasta",
    after="después del?",
    numbers="una? dos tres cuatro cinco seis siete ocho nueve diez",
)
PORTUGUESE = Language(
    months="janeiro|jan[.]? fevereiro|fev[.]? março abril|abr[.]? maio junho|jun[.]? "
    "julho|jul[.]? agosto|ago[.]? setembro|set[.]? outubro|out[.]? novembro|nov[.]? "
    "dezembro|dez[.]?",
    weekdays="segunda(?:-feira)? terça(?:-feira)? quarta(?:-feira)? quinta(?:-feira)? "
    "sexta(?:-feira)? sábado domingo",
    units={DAY: "dias?", WEEK: "semanas?", MONTH: "mês|meses", YEAR: "anos?"},
    near={
        (DAY, 0): "hoje|esta manhã|esta noite",
        (DAY, -1): "ontem",
        (DAY, -2): "anteontem|antes de ontem",
        (WEEK, 0): "n?esta semana",
        (WEEK, -1): "(?:n?a )?(?:semana passada|última semana|semana anterior)",
        (MONTH, 0): "n?este mês",
        (MONTH, -1): "(?:n?o )?(?:mês passado|último mês|mês anterior)",
        (YEAR, 0): "n?este ano",
        (YEAR, -1): "(?:n?o )?(?:ano passado|último ano)",
    },
    dates=(
        "(?:em |no dia )?{day} de {month}(?: de {year})?",
        "(?:em )?{month} (?:de )?{year}",
        "(?:em|durante|desde|antes de|depois de|até) {month}(?:(?: de)? {year})?",
    ),
    years="(?:em|desde|antes de|depois de|até) {year}",
    on_weekday="(?:desde )?n?[ao] (?:últim[ao] )?{weekday}(?: passad[ao])?",
    of_last_week="{weekday} da semana passada",
    ago="(?:há {n} {unit}|{n} {unit} atrás)",
    within="(?:n?[oa]s )?últim[oa]s {n} {unit}",
    since="desde",
    before="antes d[eoa]|até",
    after="depois d[eoa]",
    numbers="uma? dois|duas três quatro cinco seis sete oito nove dez",
)
CHINESE = Language(
    months="1月|一月|元月 2月|二月 3月|三月 4月|四月 5月|五月 6月|六月 7月|七月 8月|八月 9月|九月 "
    "10月|十月 11月|十一月 12月|十二月",
    weekdays="一 二 三 四 五 六 日|天",
    units={DAY: "天|日", WEEK: "个?(?:周|星期|礼拜)", MONTH: "个?月", YEAR: "年"},
    near={
        (DAY, 0): "今天|今日",
        (DAY, -1): "昨天|昨日",
        (DAY, -2): "前天",
        (WEEK, 0): "(?:这个?|本)(?:周|星期|礼拜)",
        (WEEK, -1): "上个?(?:周|星期|礼拜)",
        (WEEK, -2): "上上个?(?:周|星期|礼拜)",
        (MONTH, 0): "这个月|本月",
        (MONTH, -1): "上个?月",
        (YEAR, 0): "今年",
        (YEAR, -1): "去年",
        (YEAR, -2): "前年",
    },
    dates=("(?:{year}年)?{month}(?:{day}[日号])?份?",),
    years="{year}年",
    on_weekday="(?:周|星期|礼拜){weekday}",
    of_last_week="上个?(?:周|星期|礼拜){weekday}",
    ago="{n}{unit}(?:之?前|以前)",
    within="(?:最近|过去|近){n}{unit}",
    since="以来|之后|以后|起",
    before="之前|以前",
    after="",
    numbers="一 二|两 三 四 五 六 七 八 九 十",
    spaced=False,
)
JAPANESE = Language(
    months="1月|一月 2月|二月 3月|三月 4月|四月 5月|五月 6月|六月 7月|七月 8月|八月 9月|九月 "
    "10月|十月 11月|十一月 12月|十二月",
    weekdays="月曜日? 火曜日? 水曜日? 木曜日? 金曜日? 土曜日? 日曜日?",
    units={DAY: "日間?", WEEK: "週間?", MONTH: "[かヶケカ]月間?", YEAR: "年間?"},
    near={
        (DAY, 0): "今日|本日",
        (DAY, -1): "昨日|きのう",
        (DAY, -2): "一昨日|おととい",
        (WEEK, 0): "今週",
        (WEEK, -1): "先週",
        (WEEK, -2): "先々週",
        (MONTH, 0): "今月",
        (MONTH, -1): "先月",
        (MONTH, -2): "先々月",
        (YEAR, 0): "今年",
        (YEAR, -1): "去年|昨年",
        (YEAR, -2): "一昨年|おととし",
    },
    dates=("(?:{year}年)?{month}(?:{day}日)?",),
    years="{year}年",
    on_weekday="{weekday}",
    of_last_week="先週の?{weekday}",
    ago="{n}{unit}前",
    within="(?:過去|ここ|直近の?|最近の?){n}{unit}",
    since="以来|以降|から",
    before="以前|より前|まで",
    after="",
    spaced=False,
)
KOREAN = Language(
    months="1월|일월 2월|이월 3월|삼월 4월|사월 5월|오월 6월|유월 7월|칠월 8월|팔월 9월|구월 "
    "10월|시월 11월|십일월 12월|십이월",
    weekdays="월요일 화요일 수요일 목요일 금요일 토요일 일요일",
    units={DAY: "일", WEEK: "주일?", MONTH: "개월|달", YEAR: "년"},
    near={
        (DAY, 0): "오늘",
        (DAY, -1): "어제",
        (DAY, -2): "그저께|그제|엊그제",
        (WEEK, 0): "이번 ?주|금주",
        (WEEK, -1): "지난 ?주|저번 ?주",
        (WEEK, -2): "지지난 ?주",
        (MONTH, 0): "이번 ?달|이달",
        (MONTH, -1): "지난 ?달|저번 ?달",
        (YEAR, 0): "올해|금년",
        (YEAR, -1): "작년|지난해",
        (YEAR, -2): "재작년",
    },
    dates=("(?:{year}년 ?)?{month}(?: ?{day}일)?",),
    years="{year}년",
    on_weekday="{weekday}",
    of_last_week="지난 ?주 ?{weekday}",
    ago="{n} ?{unit} ?전",
    within="(?:최근|지난) ?{n} ?{unit}",
    since="이후|이래|부터",
    before="이전|까지",
    after="",
    numbers="한|일 두|이 세|삼 네|사 다섯|오 여섯|육 일곱|칠 여덟|팔 아홉|구 열|십",
    spaced=False,
)
LANGUAGES = {
    "en": ENGLISH,
    "de": GERMAN,
    "fr": FRENCH,
    "es": SPANISH,
    "pt": PORTUGUESE,
    "zh": CHINESE,
    "ja": JAPANESE,
    "ko": KOREAN,
}
